"""What can happen to a run: interruption, a full disk, broken data, a loss that is no number. Nothing is lost."""

import errno
import json
import os
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn
from torch.utils.data import IterableDataset

from sapa.files.atomic import PART
from sapa.tasks import TASKS, checkpoint, load
from sapa.tasks.checkpoint import RESULT, STATE, WEIGHTS, CannotWrite
from sapa.tasks.data import BadSample
from sapa.tasks.engine import Diverged, Machine, Run
from sapa.tasks.loading import Order, Share
from sapa.tasks.nets import read_weights
from sapa.tasks.segmentation import Segmentation
from sapa.tasks.spec import parse
from sapa.tasks.streaming import Stream
from sapa.tasks.task import presets_of
from sapa.tasks.watch import Watch

EAGER = Machine(workers=0, save_every=0.0)  # a state after every step


class Killed(Exception):
    """Stands for the end of the process."""


class Killer(Watch):
    def __init__(self, step: int) -> None:
        self.at = step

    def step(self, step: int, loss: float, pictures: int) -> None:
        if step == self.at:
            raise Killed


class Listener(Watch):
    def __init__(self) -> None:
        self.notes: list[str] = []
        self.steps: list[int] = []

    def step(self, step: int, loss: float, pictures: int) -> None:
        self.steps.append(step)

    def note(self, text: str) -> None:
        self.notes.append(text)


def make(
    folder: Path, name: str = "segmentation", watch: Watch | None = None, up: str = "sapa_b", **changes: Any
) -> Run:
    kind = load(name)
    preset = presets_of(kind)["quick"].changed(
        **{"size": (32, 48), "batch": 2, "steps": 6, "evaluations": 2, "samples": (6, 2), **changes}
    )
    data = kind.data(preset, None, "train")
    return Run(kind(preset, data.classes), parse(up), folder, machine=EAGER, watch=watch)


def fit(run: Run, *, resume: bool = False) -> dict[str, Any]:
    kind = type(run.task)
    return run.fit(kind.data(run.task.preset, None, "train"), kind.data(run.task.preset, None, "val"), resume=resume)


def weights(folder: Path) -> dict[str, Tensor]:
    return checkpoint.read(folder / WEIGHTS)[0]


@pytest.mark.parametrize("name", TASKS)
def test_a_run_that_is_interrupted_ends_with_the_same_bits(name: str, tmp_path: Path) -> None:
    # dropout and the sampling of detectors draw numbers too; chance is the same after an interruption
    whole = fit(make(tmp_path / "whole", name))
    for step in (2, 5):
        with pytest.raises(Killed):
            fit(make(tmp_path / "parts", name, Killer(step)), resume=step > 2)
        assert not (tmp_path / "parts" / RESULT).exists()
    parts = fit(make(tmp_path / "parts", name), resume=True)
    one, other = weights(tmp_path / "whole"), weights(tmp_path / "parts")
    assert one.keys() == other.keys()
    assert all(torch.equal(one[key], other[key]) for key in one)
    assert parts["losses"] == whole["losses"]
    without = lambda result: [{**row, "seconds": 0} for row in result["history"]]  # noqa: E731
    assert json.dumps(without(parts)) == json.dumps(without(whole))
    assert not (tmp_path / "parts" / STATE).exists()


def test_momentum_is_part_of_the_state(tmp_path: Path) -> None:
    options = {"optimizer": "sgd", "lr": 0.1}
    fit(make(tmp_path / "whole", **options))
    with pytest.raises(Killed):
        fit(make(tmp_path / "parts", watch=Killer(4), **options))
    tensors, note = checkpoint.read(tmp_path / "parts" / STATE)
    assert note["step"] == 3
    assert any(key.endswith("momentum_buffer") for key in tensors)
    fit(make(tmp_path / "parts", **options), resume=True)
    one, other = weights(tmp_path / "whole"), weights(tmp_path / "parts")
    assert all(torch.equal(one[key], other[key]) for key in one)


def test_a_finished_run_is_not_done_again(tmp_path: Path) -> None:
    first = fit(make(tmp_path))
    listener = Listener()
    again = fit(make(tmp_path, watch=listener), resume=True)
    assert listener.steps == []
    assert again["metrics"]["pixel accuracy"] == first["metrics"]["pixel accuracy"]


def test_a_folder_with_another_run_is_left_alone(tmp_path: Path) -> None:
    fit(make(tmp_path))
    with pytest.raises(FileExistsError, match="holds a run already: add --resume"):
        fit(make(tmp_path))
    with pytest.raises(ValueError, match=r"holds another run: preset\.lr is 0\.01 there and 0\.5 here"):
        fit(make(tmp_path, lr=0.5), resume=True)
    with pytest.raises(ValueError, match="upsampler is 'sapa_b' there and 'carafe' here"):
        fit(make(tmp_path, up="carafe"), resume=True)


def test_a_full_disk_loses_no_state_and_does_not_stop_the_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fit(make(tmp_path / "whole"))
    real, writes = Path.write_bytes, []

    def write(path: Path, content: bytes) -> int:
        writes.append(path.name)
        if len(writes) in (4, 5):  # of run.json and the states
            real(path, content[: len(content) // 2])  # as much as there is room for
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(path, content)

    monkeypatch.setattr(Path, "write_bytes", write)
    listener = Listener()
    fit(make(tmp_path / "full", watch=listener))
    assert [note for note in listener.notes if "No space left on device" in note and "goes on" in note]
    assert len(listener.notes) == 2
    assert not list((tmp_path / "full").glob(f".*{PART}"))
    assert all(torch.equal(x, weights(tmp_path / "full")[key]) for key, x in weights(tmp_path / "whole").items())


def test_a_disk_that_is_full_at_the_end_can_be_cleared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fit(make(tmp_path / "whole"))
    real = Path.write_bytes

    def write(path: Path, content: bytes) -> int:
        if WEIGHTS in path.name:
            real(path, content[:100])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(path, content)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", write)
        with pytest.raises(CannotWrite, match=r"No space left on device.*go on with --resume"):
            fit(make(tmp_path / "full"))
    assert sorted(path.name for path in (tmp_path / "full").iterdir()) == ["run.json", STATE]
    assert checkpoint.read(tmp_path / "full" / STATE)[1]["step"] == 5
    fit(make(tmp_path / "full"), resume=True)
    assert all(torch.equal(x, weights(tmp_path / "full")[key]) for key, x in weights(tmp_path / "whole").items())


def test_states_are_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / STATE
    checkpoint.save(path, {"a": torch.zeros(3)}, {"step": 1})
    before, handle = os.stat(path).st_ino, path.open("rb")
    checkpoint.save(path, {"a": torch.ones(3)}, {"step": 2})
    # who reads the old one still has all of it
    assert os.stat(path).st_ino != before
    assert len(handle.read()) == path.stat().st_size
    handle.close()
    tensors, note = checkpoint.read(path)
    assert tensors["a"].tolist() == [1, 1, 1]
    assert note == {"step": 2}


class Fatal:
    """What a pickle can do to the one who opens it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.path),)


def test_nothing_in_a_file_is_executed(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with pytest.raises(Killed):
        fit(make(run, watch=Killer(3)))
    (run / STATE).write_bytes(pickle.dumps(Fatal(tmp_path / "owned")))
    with pytest.raises(ValueError, match="is broken, or no safetensors file"):
        fit(make(run), resume=True)
    torch.save(Fatal(tmp_path / "owned"), tmp_path / "weights.pth")
    with pytest.raises(pickle.UnpicklingError):
        read_weights(tmp_path / "weights.pth")
    assert not (tmp_path / "owned").exists()


class Poisoned(Segmentation):
    """Whose loss is no number from some step on."""

    calls = 0

    def loss(self, model: nn.Module, batch: dict[str, Any]) -> Tensor:
        self.calls += 1
        return super().loss(model, batch) * (float("nan") if self.calls > 3 else 1)


def test_a_loss_that_is_nan_stops_the_run_and_leaves_a_whole_state(tmp_path: Path) -> None:
    preset = presets_of(Segmentation)["quick"].changed(size=(32, 48), batch=2, steps=6, samples=(6, 2), evaluations=2)
    data = Segmentation.data(preset, None, "train")
    with pytest.raises(
        Diverged, match=r"sapa_b: the loss is nan in step 4\. The last state, .*, is whole\. Try a lower"
    ):
        Run(Poisoned(preset, data.classes), parse("sapa_b"), tmp_path, machine=EAGER).fit(data, data)
    tensors, note = checkpoint.read(tmp_path / STATE)
    assert note["step"] == 3
    assert all(x.isfinite().all() for x in tensors.values())


def folder_of_images(root: Path, count: int = 6) -> Path:
    """Images and masks; class 3 is named and nowhere."""
    random = np.random.default_rng(0)
    for split in ("train", "val"):
        for kind in ("images", "masks"):
            (root / kind / split).mkdir(parents=True)
        for i in range(count):
            mask = random.integers(0, 3, (8, 12)).astype(np.uint8).repeat(4, 0).repeat(4, 1)
            colours = np.array([(220, 40, 40), (40, 220, 40), (40, 40, 220)], np.uint8)
            Image.fromarray(colours[mask]).save(root / "images" / split / f"{i}.png")
            Image.fromarray(mask).save(root / "masks" / split / f"{i}.png")
    (root / "classes.txt").write_text("red\ngreen\nblue\nnowhere\n")
    return root


def fit_folder(root: Path, folder: Path, watch: Watch | None = None) -> dict[str, Any]:
    preset = presets_of(Segmentation)["quick"].changed(size=(32, 48), batch=2, steps=6, evaluations=1)
    data = {split: Segmentation.data(preset, str(root), split) for split in ("train", "val")}
    task = Segmentation(preset, data["train"].classes)
    return Run(task, parse("nearest"), folder, machine=Machine(workers=0), watch=watch).fit(data["train"], data["val"])


def test_broken_images_and_missing_annotations_are_left_out_of_training(tmp_path: Path) -> None:
    root = folder_of_images(tmp_path / "data")
    broken, missing = root / "images/train/1.png", root / "masks/train/3.png"
    broken.write_bytes(broken.read_bytes()[:60])
    missing.unlink()
    listener = Listener()
    result = fit_folder(root, tmp_path / "run", listener)
    assert len(result["skipped"]) == 2
    told = " ".join(result["skipped"].values())
    assert "1.png" in told
    assert "3.png" in told
    assert len(listener.notes) == 2
    assert all(note.endswith("Left out.") for note in listener.notes)


def test_broken_images_stop_an_evaluation(tmp_path: Path) -> None:
    root = folder_of_images(tmp_path / "data")
    broken = root / "images/val/2.png"
    broken.write_bytes(b"no picture")
    with pytest.raises(BadSample, match=r"2\.png"):
        fit_folder(root, tmp_path / "run")


def test_data_of_which_nothing_can_be_read(tmp_path: Path) -> None:
    root = folder_of_images(tmp_path / "data", count=2)
    for path in (root / "images/train").iterdir():
        path.write_bytes(b"no picture")
    with pytest.raises(BadSample, match=r"And 1 more\."):
        fit_folder(root, tmp_path / "run")


def test_a_class_that_is_nowhere_is_null_and_in_no_mean(tmp_path: Path) -> None:
    root = folder_of_images(tmp_path / "data")
    fit_folder(root, tmp_path / "run")
    metrics = json.loads((tmp_path / "run" / RESULT).read_text())["metrics"]
    # nothing predicts it after the first steps, and so it counts nowhere
    others = [metrics[f"IoU {name}"] for name in ("red", "green", "blue")]
    if metrics["IoU nowhere"] is None:
        assert metrics["mIoU"] == pytest.approx(sum(others) / 3)
    else:
        assert metrics["IoU nowhere"] == 0
        assert metrics["mIoU"] == pytest.approx(sum(others) / 4)


def test_parts_of_a_step_give_the_step() -> None:
    """Without the statistics of BatchNorm, which are of each part."""
    kind = load("segmentation")
    preset = presets_of(kind)["quick"].changed(
        size=(32, 48), batch=4, steps=3, samples=(8, 2), freezes_norms=True, optimizer="sgd", lr=0.1, evaluations=1
    )
    data = kind.data(preset, None, "train")
    # halves in which not as much is labelled
    for i in range(0, len(data), 2):
        data[i]["mask"][:16] = 255
    states = []
    for parts in (1, 2, 4):
        run = Run(kind(preset, data.classes), parse("sapa_b"), Path(), machine=Machine(workers=0, parts=parts))
        run._train(data, data, 3)
        states.append((run.bare.state_dict(), run.losses))
    for state, losses in states[1:]:
        torch.testing.assert_close(state, states[0][0], rtol=1e-4, atol=1e-5)
        assert [loss for _, loss in losses] == pytest.approx([loss for _, loss in states[0][1]], rel=1e-4)


class River(IterableDataset[dict[str, Any]]):
    """Samples without a length, one of them broken, in another order in each pass."""

    def __init__(self, data: Any) -> None:
        self.data, self.classes, self.epoch = data, data.classes, 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return map(self.sample, range(len(self.data)))

    def sample(self, i: int) -> dict[str, Any]:
        if i == 2:
            raise BadSample("river 2: is broken.")
        return self.data[(i + self.epoch) % len(self.data)]


def fit_stream(folder: Path, watch: Watch | None = None, **changes: Any) -> dict[str, Any]:
    fields = {"size": (32, 48), "batch": 2, "steps": 6, "evaluations": 2, "samples": (5, 3), **changes}
    preset = presets_of(Segmentation)["quick"].changed(**fields)
    train, val = (Segmentation.data(preset, None, split) for split in ("train", "val"))
    run = Run(Segmentation(preset, train.classes), parse("sapa_b"), folder, machine=EAGER, watch=watch)
    few = [val[i] for i in range(2)]
    return run.fit(River(train), Few(few), resume=True)


class Few(IterableDataset[dict[str, Any]]):
    def __init__(self, samples: list[dict[str, Any]]) -> None:
        self.samples = samples

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.samples)


def test_a_stream_can_be_trained_on_and_resumed(tmp_path: Path) -> None:
    whole = fit_stream(tmp_path / "whole")
    assert whole["data"] == {"train": None, "val": None}
    assert list(whole["skipped"]) == ["river 2"]
    with pytest.raises(Killed):
        fit_stream(tmp_path / "parts", Killer(4))
    fit_stream(tmp_path / "parts")
    one, other = weights(tmp_path / "whole"), weights(tmp_path / "parts")
    assert all(torch.equal(one[key], other[key]) for key in one)
    with pytest.raises(ValueError, match="a stream has no epochs; say how long to train with --set steps=1000"):
        fit_stream(tmp_path / "endless", steps="none")


@pytest.mark.parametrize(("processes", "parts"), [(1, 1), (2, 1), (1, 2), (2, 2)])
def test_a_stream_is_shared_as_other_data_is(processes: int, parts: int) -> None:
    collate = lambda samples: {"image": [sample["i"] for sample in samples]}  # noqa: E731
    numbers: Any = Few([{"i": i} for i in range(5)])
    shares = [Share(rank, processes, parts) for rank in range(processes)]
    keep = lambda sample, generator: sample  # noqa: E731
    streams = [iter(Stream(numbers, keep, collate, Order(1, 4, (1, 4), 0, share))) for share in shares]
    found: list[int] = []
    for _ in range(3 * parts):
        for stream in streams:
            found += next(stream).batch["image"]
    assert found == [i % 5 for i in range(4, 16)]
    assert all(next(stream, None) is None for stream in streams)


@pytest.mark.parametrize(("processes", "parts"), [(1, 1), (2, 1), (1, 2), (2, 2)])
def test_the_order_is_one_whoever_takes_part(processes: int, parts: int) -> None:
    length, batch, steps = 10, 4, 7
    orders = [iter(Order(length, batch, (0, steps), 5, Share(rank, processes, parts))) for rank in range(processes)]
    found = []
    for _ in range(steps):
        for _ in range(parts):
            for order in orders:
                found += next(order)
    alone = [place for places in Order(length, batch, (0, steps), 5) for place in places]
    assert found == alone
    for epoch in (0, 1):
        assert sorted(i for e, i in alone if e == epoch) == list(range(length))
    assert [place for places in Order(length, batch, (3, steps), 5) for place in places] == alone[3 * batch :]
    assert [i for e, i in alone if e == 0] != [i for e, i in alone if e == 1]


def test_a_batch_that_cannot_be_split() -> None:
    with pytest.raises(ValueError, match="a batch of 4 cannot be split evenly over 3 processes and 1 parts"):
        Order(10, 4, (0, 1), 0, Share(0, 3))
