"""The four tasks: each learns what it is shown, its loss is right, and all but the upsamplers starts equal."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sapa.models.imagenet import MEAN, STD, normalise
from sapa.tasks import TASKS, load
from sapa.tasks.engine import Machine, Run, build_model
from sapa.tasks.spec import parse, parse_all, sweep
from sapa.tasks.task import presets_of

QUIET = Machine(workers=0)

# a metric that only a model that knows the pictures reaches, and what it needs for that
FINE = {"options.stride": 1, "options.width": 24}
LEARNED: dict[str, tuple[dict[str, Any], Callable[[dict[str, float]], bool]]] = {
    "segmentation": (FINE, lambda m: m["pixel accuracy"] > 99 and m["mIoU"] > 80),
    "detection": (
        {"steps": 80, "lr": 4e-3, "options.rpn_post_nms_top_n_train": 60, "options.box_batch_size_per_image": 32},
        lambda m: m["AP50"] > 95,
    ),
    "depth": (FINE, lambda m: m["δ<1.25"] > 0.99 and m["Abs Rel"] < 0.05),
    "matting": ({**FINE, "augment.trimap": (1.0, 3.0)}, lambda m: m["MSE"] < 10),
}


class Kept:
    """A few samples, drawn once."""

    def __init__(self, data: Any) -> None:
        self.names, self.classes = data.names, data.classes
        self.samples = [data[i] for i in range(len(data))]

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, i: int) -> Any:
        return self.samples[i]


@pytest.mark.parametrize("name", TASKS)
def test_each_task_learns_a_handful_of_pictures(name: str, tmp_path: Path) -> None:
    changes, is_perfect = LEARNED[name]
    kind = load(name)
    few = {"size": (48, 64), "batch": 2, "steps": 150, "evaluations": 1, "samples": (2, 2), "augment.flip": 0.0}
    preset = presets_of(kind)["quick"].changed(**{**few, **changes})
    data = Kept(kind.data(preset, None, "train"))
    result = Run(kind(preset, data.classes), parse("sapa_b"), tmp_path, machine=QUIET).fit(data, data)
    assert is_perfect(result["metrics"]), result["metrics"]
    assert result["losses"][-1][1] < result["losses"][0][1]
    assert len(list((tmp_path / "pictures").glob("*-prediction.webp"))) == 2


@pytest.mark.parametrize("name", TASKS)
def test_all_but_the_upsamplers_starts_the_same(name: str) -> None:
    kind = load(name)
    task = kind(presets_of(kind)["quick"], ["a", "b"])

    def rest(upsampler: str, seed: int = 0) -> dict[str, Tensor]:
        state = build_model(task, parse(upsampler), seed).state_dict()
        return {key: x for key, x in state.items() if "upsamplers." not in key}

    plain = rest("bilinear")
    for other in ("sapa_g", "carafe", "sapa_b:kernel_size=3,prior=gaussian"):
        assert all(torch.equal(x, plain[key]) for key, x in rest(other).items())
        assert rest(other).keys() == plain.keys()
    assert not all(torch.equal(x, plain[key]) for key, x in rest("bilinear", seed=1).items())


def test_two_forms_of_an_upsampler_start_from_the_same_weights() -> None:
    kind = load("segmentation")
    task = kind(presets_of(kind)["quick"], ["a", "b"])
    states = [build_model(task, parse(f"sapa_b:{option}"), 0).state_dict() for option in ("border=zero", "border=mask")]
    assert states[0].keys() == states[1].keys()
    assert all(torch.equal(states[0][key], states[1][key]) for key in states[0])


def test_normalise_is_that_of_imagenet() -> None:
    image = torch.rand(2, 3, 4, 5)
    expected = torch.stack([(image[:, i] - MEAN[i]) / STD[i] for i in range(3)], 1)
    torch.testing.assert_close(normalise(image), expected)


def test_the_loss_of_segmentation_is_the_mean_over_what_is_labelled() -> None:
    kind = load("segmentation")
    task = kind(presets_of(kind)["quick"], ["a", "b", "c"])
    logits = torch.randn(2, 3, 4, 6)
    mask = torch.randint(0, 3, (2, 4, 6))
    mask[0, :3] = 255
    batch = {"image": torch.rand(2, 3, 4, 6), "mask": mask}
    net = Answer(logits)
    by_hand = [-F.log_softmax(logits[b, :, y, x], 0)[mask[b, y, x]] for b, y, x in (mask != 255).nonzero().tolist()]
    torch.testing.assert_close(task.loss(net, batch), torch.stack(by_hand).mean())
    assert int(task.weight(batch)) == len(by_hand)
    nothing = {"image": batch["image"], "mask": torch.full_like(mask, 255)}
    assert float(task.loss(net, nothing)) == 0


class Answer(nn.Module):
    """Says the same whatever it is asked."""

    def __init__(self, answer: Tensor) -> None:
        super().__init__()
        self.answer = answer

    def forward(self, _: Tensor) -> Tensor:
        return self.answer


def test_the_loss_of_depth_is_scale_invariant_in_part() -> None:
    kind = load("depth")
    task = kind(presets_of(kind)["quick"])
    truth = torch.rand(1, 1, 4, 6) * 4 + 1
    truth[..., 0] = 0  # unknown
    batch = {"image": torch.rand(1, 3, 4, 6), "depth": truth}
    found = torch.rand(1, 1, 4, 6) * 4 + 1
    error = (found.log() - truth.log())[truth > 0]
    expected = 10 * (error.square().mean() - 0.85 * error.mean() ** 2).sqrt()
    torch.testing.assert_close(task.loss(Answer(found), batch), expected, rtol=1e-4, atol=1e-4)


def test_matting_keeps_what_the_trimap_says() -> None:
    kind = load("matting")
    task = kind(presets_of(kind)["quick"])
    trimap = torch.tensor([[0.0, 0.5, 1.0]]).expand(1, 1, 1, 3)
    batch = {"image": torch.rand(1, 3, 1, 3), "trimap": trimap, "alpha": torch.tensor([[[[0.0, 0.25, 1.0]]]])}
    found = task.predict(Answer(torch.tensor([[[[0.7, 0.75, 0.7]]]])), batch)
    torch.testing.assert_close(found, torch.tensor([[[[0.0, 0.75, 1.0]]]]))
    # only the middle counts
    torch.testing.assert_close(task.loss(Answer(torch.tensor([[[[9.0, 0.75, 9.0]]]])), batch), torch.tensor(0.5))


def test_specs_keep_their_label_and_commas_between_options() -> None:
    specs = parse_all("nearest, sapa_b:kernel_size=3,border=mask,prior=gaussian,carafe")
    assert [spec.label for spec in specs] == ["nearest", "sapa_b:kernel_size=3,border=mask,prior=gaussian", "carafe"]
    assert dict(specs[1].options) == {"kernel_size": 3, "border": "mask", "prior": "gaussian"}
    up: Any = specs[1].build(16, 16)
    assert (up.kernel_size, up.border, up.prior.kind) == ((3, 3), "mask", "gaussian")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sappa_b", "no upsampler 'sappa_b'. Did you mean 'sapa_b'?"),
        ("sapa_b:kernel=3", "'sapa_b' has no option 'kernel'. Did you mean 'kernel_size'?"),
        ("sapa_b:3", "write NAME:option=value"),
        ("sapa_b:channels=3", "channels follows from the model"),
        ("sapa_b:kernel_size=4", "kernel_size must be odd"),
        ("bilinear,bilinear", "bilinear is named twice"),
        ("", "name at least one"),
    ],
)
def test_specs_that_are_wrong_say_so(text: str, message: str) -> None:
    with pytest.raises((KeyError, ValueError)) as error:
        parse_all(text)
    assert message in str(error.value)


def test_sweeps_are_those_of_table_6() -> None:
    assert [spec.name for spec in sweep("similarity")] == ["sapa_i", "sapa_b", "sapa_p", "sapa_g"]
    assert [dict(spec.options)["normalize"] for spec in sweep("normalize")] == [
        *("none", "softmax", "relu", "sigmoid", "softplus"),
    ]
    assert [dict(spec.options)["kernel_size"] for spec in sweep("kernel_size")] == [3, 5, 7]
    assert [spec.label for spec in sweep("embed_dim", "sapa_g:kernel_size=3")] == [
        f"sapa_g:kernel_size=3,embed_dim={d}" for d in (16, 32, 64, 128)
    ]
    with pytest.raises(KeyError, match="no sweep over 'sizes'"):
        sweep("sizes")


def test_a_task_that_is_not_there() -> None:
    with pytest.raises(KeyError, match="no task 'segmentatoin'"):
        load("segmentatoin")
    with pytest.raises(KeyError, match="no module 'nowhere'"):
        load("nowhere:Task")
