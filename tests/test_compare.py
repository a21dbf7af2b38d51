"""The comparison: what its table says, that it goes on where it stopped, its page, and the commands."""

import json
import re
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np
import pytest
from scipy import stats
from typer.testing import CliRunner

from sapa.cli import app
from sapa.tasks import comparison_page, load
from sapa.tasks.compare import Comparison, compare, open_comparison, paired, run_folder, table
from sapa.tasks.curves import dots, lines, ticks
from sapa.tasks.engine import Machine
from sapa.tasks.segmentation import Segmentation
from sapa.tasks.significance import student
from sapa.tasks.spec import parse_all
from sapa.tasks.task import presets_of, same_classes
from sapa.tasks.watch import Watch

TINY = {"size": (32, 48), "batch": 2, "steps": 2, "evaluations": 2, "samples": (4, 2)}
FIELDS = [
    part
    for name, value in (("size", "32x48"), ("steps", "2"), ("samples", "4x2"))
    for part in ("--set", f"{name}={value}")
]
SMALL = ["--batch", "2", "--workers", "0", *FIELDS]


class Counter(Watch):
    def __init__(self) -> None:
        self.begun: list[str] = []

    def begin(self, label: str, seed: int, steps: int, done: int) -> None:
        self.begun.append(f"{label} {seed}")


def by_hand(values: dict[str, list[float]]) -> Comparison:
    results: dict[str, Any] = {
        label: {
            seed: {
                "metrics": {"mIoU": value, "boundary IoU": value / 2, "boundary F": value / 4},
                **{"upsampler_parameters": 12_345, "macs": 2_500_000_000, "seconds": 90.0},
            }
            for seed, value in enumerate(of)
        }
        for label, of in values.items()
    }
    seeds = list(range(len(next(iter(values.values())))))
    return Comparison(Segmentation, Path(), list(values), seeds, results)


def test_the_table_has_mean_spread_and_paired_difference() -> None:
    found = by_hand({"bilinear": [50.0, 52.0, 57.0], "sapa_b": [51.0, 53.5, 57.5]})
    shown = table(found)
    rows = [dict(zip(shown.columns, row, strict=True)) for row in shown.rows]
    assert rows[1]["mIoU"] == pytest.approx(mean([51.0, 53.5, 57.5]))
    assert rows[1]["±"] == pytest.approx(stdev([51.0, 53.5, 57.5]))
    differences = [1.0, 1.5, 0.5]
    assert rows[1]["mIoU - bilinear"] == pytest.approx(1.0)
    low, high = stats.t.interval(0.95, 2, mean(differences), stats.sem(differences))
    assert rows[1]["95% ±"] == pytest.approx((high - low) / 2, rel=1e-3)
    assert rows[0]["mIoU - bilinear"] is None
    assert (rows[1]["parameters"], rows[1]["GMACs"], rows[1]["minutes"]) == (12_345, 2.5, 1.5)


def test_factors_of_student_are_right() -> None:
    freedoms = range(1, 200)
    assert [student(n) for n in freedoms] == pytest.approx([stats.t.ppf(0.975, n) for n in freedoms], abs=1e-3)


def test_noise_is_that_of_all_upsamplers_once_the_seeds_are_taken_out() -> None:
    values = {"bilinear": [50.0, 52.0, 57.0], "sapa_b": [51.0, 53.5, 57.5], "carafe": [49.0, 53.0, 57.1]}
    rows = np.array(list(values.values()))
    left = rows - rows.mean(1, keepdims=True) - rows.mean(0) + rows.mean()
    expected = stats.t.ppf(0.975, 4) * np.sqrt((left**2).sum() / 4 * 2 / 3)
    difference, half = paired(by_hand(values), "sapa_b", "mIoU")
    assert (difference, half) == pytest.approx((1.0, expected), rel=1e-3)
    # a seed that lifts all alike changes nothing, and one without a number is left out of the noise
    lifted = {label: [a, b + 7.0, c] for label, (a, b, c) in values.items()}
    assert paired(by_hand(lifted), "sapa_b", "mIoU") == pytest.approx((difference, half))
    broken = {**values, "nearest": [float("nan"), 1.0, 2.0]}
    assert paired(by_hand(broken), "sapa_b", "mIoU") == pytest.approx((difference, half))


def test_one_seed_has_no_spread_and_a_class_that_is_nowhere_none_either() -> None:
    shown = table(by_hand({"nearest": [50.0], "sapa_b": [51.0]}))
    assert "±" not in shown.columns
    # without bilinear, the first is what the others are compared with
    assert shown.columns[4] == "mIoU - nearest"
    assert paired(by_hand({"bilinear": [float("nan")] * 2, "sapa_b": [1.0, 2.0]}), "sapa_b", "mIoU")[1] is None


def test_the_verdict_is_that_of_the_intervals() -> None:
    values = {
        "bilinear": [50.0, 52.0, 57.0],
        "sapa_b": [51.0, 53.01, 58.02],
        "carafe": [49.0, 53.0, 57.1],
        "nearest": [48.0, 50.01, 55.02],
    }
    text = comparison_page.verdict(by_hand(values))
    assert text == (
        "Better than bilinear: sapa_b. Worse than bilinear: nearest. Not to be told from bilinear with 3 seeds: carafe."
    )
    assert "One seed" in comparison_page.verdict(by_hand({"bilinear": [1.0], "sapa_b": [2.0]}))


def test_data_with_other_classes_is_refused() -> None:
    assert same_classes(["a", "b"], ["a", "b"]) == ["a", "b"]
    with pytest.raises(ValueError, match="of train and of val are not the same: the first that differ are b and c"):
        same_classes(["a", "b", "c"], ["a", "c"])
    with pytest.raises(ValueError, match="not the same: 2 and 1 of them"):
        same_classes(["a", "b"], ["a"])


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    return run_all(tmp_path_factory.mktemp("compare"), Watch())


def run_all(folder: Path, watch: Watch) -> Comparison:
    preset = presets_of(Segmentation)["quick"].changed(**TINY)
    specs = parse_all("bilinear,sapa_b:kernel_size=3,border=mask")
    return compare(Segmentation, preset, specs, [0, 1], folder, machine=Machine(workers=0), watch=watch)


def test_the_same_call_does_what_is_left(compared: Comparison) -> None:
    again = Counter()
    found = run_all(compared.folder, again)
    assert again.begun == []
    assert table(found).rows == table(compared).rows
    label = "sapa_b:kernel_size=3,border=mask"
    (run_folder(compared.folder, label, 1) / "result.json").unlink()
    (run_folder(compared.folder, label, 1) / "model.safetensors").unlink()
    found = run_all(compared.folder, again)
    assert again.begun == [f"{label} 1"]
    # the same numbers, though not in the same time
    assert found.values(label, "pixel accuracy") == compared.values(label, "pixel accuracy")


def test_a_comparison_can_be_opened_again(compared: Comparison) -> None:
    found = open_comparison(load("segmentation"), compared.folder)
    assert found.labels == compared.labels
    assert found.values("bilinear", "pixel accuracy") == compared.values("bilinear", "pixel accuracy")
    whole = json.loads((compared.folder / "compare.json").read_text(), parse_constant=pytest.fail)
    assert whole["results"].keys() == set(compared.labels)


def test_the_page_is_complete_and_needs_nothing_else(compared: Comparison) -> None:
    page = comparison_page.write(compared).read_text()
    assert not re.search(r"""(?:src|href)=["'](?!data:)""", page)
    assert not re.search(r"https?://(?!www\.w3\.org)", page)
    assert "{{" not in page
    assert page.count("<polyline") == 2 * 2 + 2  # the metric of four runs, the loss of two
    # two pictures: image and truth once, prediction and error for both upsamplers
    assert page.count("data:image/webp") == 2 * (2 + 2 * 2)
    for label in compared.labels:
        assert f"<code>{label}</code>" in page


def test_ticks_are_round_and_enclose() -> None:
    assert ticks(0, 100) == [0, 20, 40, 60, 80, 100]
    assert ticks(0.013, 0.058) == [0.01, 0.02, 0.03, 0.04, 0.05, 0.06]
    for low, high in ((3.0, 3.0), (0.0, 0.0), (-2.0, 7.0), (17.59, 17.61)):
        found = ticks(low, high)
        assert found[0] <= low <= high <= found[-1]
        assert len(found) <= 8


def test_plots_escape_names_and_leave_out_what_is_no_number() -> None:
    drawn = lines({"a<b": [[(0, 1.0), (1, float("nan")), (2, 3.0)]]}, "steps", "loss")
    assert "a&lt;b" in drawn
    assert len(re.findall(r"[\d.]+,[\d.]+", re.search(r'points="([^"]*)"', drawn)[1])) == 2  # type: ignore[index]
    assert dots({"a<b": [float("nan")]}, "mIoU") == ""


def invoke(*arguments: str | Path) -> Any:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_commands_train_measure_and_compare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own_task.py").write_text("from sapa.tasks.depth import Depth\n\nclass Own(Depth):\n    pass\n")
    trained = invoke("train", "own_task:Own", "-u", "carafe", "-o", tmp_path / "run", *SMALL)
    assert trained.exit_code == 0, trained.output
    assert "RMS" in trained.output
    refused = invoke("eval", tmp_path / "run", "--workers", "0")
    assert "of a task of your own: add --task own_task:Own" in str(refused.output) + str(refused.exception)
    again = invoke("eval", tmp_path / "run", "--task", "own_task:Own", "--json", "--workers", "0")
    assert json.loads(again.stdout) == json.loads((tmp_path / "run" / "result.json").read_text())["metrics"]
    result = invoke("compare", "depth", "--sweep", "kernel_size", "-o", tmp_path / "all", *SMALL)
    assert result.exit_code == 0, result.output
    for K in (3, 5, 7):
        assert f"sapa_b:kernel_size={K}" in result.stdout
    assert (tmp_path / "all" / "report.html").exists()
    one = run_folder(tmp_path / "all", "sapa_b:kernel_size=3", 0)
    numbers = json.loads(invoke("eval", one, "--json", "--workers", "0").stdout)
    assert numbers == json.loads((one / "result.json").read_text())["metrics"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("train", "segmentatoin"), "sapa train: no task 'segmentatoin'. Did you mean 'segmentation'?"),
        (("train", "--preset", "qick"), "sapa train: segmentation has no preset 'qick'. Did you mean 'quick'?"),
        (("train", "-u", "sapa"), "sapa train: no upsampler 'sapa'."),
        (("train", "--set", "lr"), "sapa train: --set lr: write FIELD=VALUE"),
        (("train", "--data", "/nowhere"), "sapa train: /nowhere: there is no such folder."),
        (("train", "--weights", "x.pth"), "the quick net has no pretrained weights"),
        (("compare", "--sweep", "sizes"), "sapa compare: no sweep over 'sizes'."),
        (("eval", "/nowhere"), "sapa eval: /nowhere holds no run"),
    ],
)
def test_commands_say_what_is_wrong(arguments: tuple[str, ...], message: str, tmp_path: Path) -> None:
    more = () if arguments[0] == "eval" else ("-o", tmp_path / "run")
    result = invoke(*arguments, *more)
    assert result.exit_code == 1
    assert message in str(result.output) + str(result.exception)
    assert not (tmp_path / "run").exists()


def test_trackers_are_accelerates(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="needs tensorboard: pip install 'sapa[dev]'")
    result = invoke("train", "-o", tmp_path / "run", "--log", "tensorboard", *SMALL)
    assert result.exit_code == 0, result.output
    assert list((tmp_path / "run").rglob("events.out.tfevents.*"))
