"""How each experiment is trained: every preset builds and runs, the published ones are as published."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from sapa.models.faster_rcnn import StillNorm
from sapa.nn import build
from sapa.tasks import checkpoint, load
from sapa.tasks.engine import Machine, Run
from sapa.tasks.nets import Pyramid
from sapa.tasks.norms import share_norms
from sapa.tasks.optimise import optimizer_of, rate
from sapa.tasks.presets import PRESETS, Group, Preset, from_json
from sapa.tasks.spec import parse

QUIET = Machine(workers=0)
SIZE = (64, 96)

SWIN = {
    **{"model_type": "swin", "embed_dim": 32, "depths": [1, 1, 1, 1], "num_heads": [1, 2, 4, 8], "window_size": 4},
    **{"image_size": 64, "out_features": ["stage1", "stage2", "stage3", "stage4"]},
}
# nets too large for a test are made small; how they are trained is the preset's
SMALLER: dict[str, dict[str, Any]] = {
    "segformer_b1": {"hidden_sizes": [16, 32, 40, 64], "depths": [1, 1, 1, 1], "decoder_hidden_size": 32},
    "maskformer_swin_b": {
        "backbone_config": SWIN,
        "decoder_config": {"model_type": "detr", "decoder_layers": 1, "encoder_layers": 1, "num_queries": 5},
    },
    "mask2former_swin_b": {"backbone_config": SWIN, "encoder_layers": 1, "decoder_layers": 2, "num_queries": 5},
    "faster_rcnn_r50": {"min_size": 64, "max_size": 96},
}


@pytest.mark.parametrize(("name", "key"), [(name, key) for name, of in PRESETS.items() for key in of])
def test_every_preset_builds_and_runs_two_steps(
    name: str, key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind, preset = load(name), PRESETS[name][key]
    small = {"short": 64, "longest": 128, "crops": (64,)}
    augment = {field: small.get(field, value) for field, value in preset.augment.items()}
    preset = preset.changed(
        size=SIZE, batch=2, steps=2, evaluations=1, samples=(2, 1), pretrained=False,
        **{f"augment.{field}": value for field, value in augment.items()},
        **{f"options.{field}": value for field, value in SMALLER.get(preset.net, {}).items()},
    )  # fmt: skip
    saved: list[str] = []
    monkeypatch.setattr(checkpoint, "save", lambda path, *_: saved.append(path.name))  # hundreds of megabytes
    data, val = kind.data(preset, None, "train"), kind.data(preset, None, "val")
    task = kind(preset, data.classes)
    run = Run(task, parse("sapa_b"), tmp_path, machine=QUIET)
    before = {key: x.clone() for key, x in run.bare.named_parameters()}
    result = run.fit(data, val)
    assert result["steps"] == 2
    assert saved[-1] == checkpoint.WEIGHTS
    assert set(kind.shown) <= result["metrics"].keys()
    moved = [key for key, x in run.bare.named_parameters() if not torch.equal(x, before[key])]
    assert any("upsampler" in key for key in moved)
    assert any("upsampler" not in key for key in moved)
    assert from_json(checkpoint.read_json(tmp_path / checkpoint.RUN)["preset"]) == preset


def test_presets_of_the_paper_are_as_published() -> None:
    segnet = PRESETS["segmentation"]["segnet_sunrgbd"]
    assert (segnet.optimizer, segnet.lr, segnet.momentum, segnet.epochs, segnet.batch) == ("sgd", 0.01, 0.9, 200, 8)
    assert rate(segnet, 0, 100) == rate(segnet, 99, 100) == 1
    coco = PRESETS["detection"]["faster_rcnn_coco"]
    parts = [rate(coco, step, 12_000) for step in (0, 250, 500, 7999, 8000, 10_999, 11_000)]
    assert parts == pytest.approx([1e-3, 0.5005, 1, 1, 0.1, 0.1, 0.01])
    bts = PRESETS["depth"]["bts_nyu"]
    assert rate(bts, 0, 100) == 1
    assert rate(bts, 100, 100) == pytest.approx(0.1)
    assert rate(bts, 50, 100) == pytest.approx(0.1 + 0.9 * 0.5**0.9)


def test_parameters_learn_at_the_rate_of_their_group() -> None:
    net = nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4), nn.Conv2d(4, 2, 1))
    preset = Preset("quick", "", SIZE, 2, 0.1, groups=(Group("0.*", lr=0.5, decay=0.0),), decays_norms=False)
    optimizer = optimizer_of(preset, net)
    found = {id(p): (group["lr"], group["weight_decay"]) for group in optimizer.param_groups for p in group["params"]}
    first, norm, last = ([found[id(p)] for p in layer.parameters()] for layer in net)
    assert first == [(0.05, 0.0)] * 2
    assert norm == [(0.1, 0.0)] * 2
    assert last == [(0.1, 0.01)] * 2


@pytest.mark.parametrize("name", ["carafe", "fade", "sapa_g", "dysample"])
def test_upsamplers_learn_at_one_rate_whatever_their_layers_are_called(name: str) -> None:
    preset = PRESETS["segmentation"]["small"]
    net = Pyramid("quick", lambda *channels: build(name, *channels), 2)
    rates = {id(p): group["lr"] for group in optimizer_of(preset, net).param_groups for p in group["params"]}
    assert {rates[id(p)] for p in net.upsamplers.parameters()} == {preset.lr}
    assert {rates[id(p)] for p in net.encoder.parameters()} == {preset.lr / 4}


def test_norms_that_keep_their_statistics_keep_them_on_many_devices() -> None:
    net = nn.Sequential(nn.Sequential(nn.BatchNorm2d(3), StillNorm(3)))
    on_gpus = share_norms(net, torch.device("cuda")).train()
    assert [type(norm) for norm in on_gpus[0]] == [nn.SyncBatchNorm, StillNorm]  # type: ignore[arg-type]
    assert [norm.training for norm in on_gpus[0]] == [True, False]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sizes": "1x2"}, "no field 'sizes'. Did you mean 'size'?"),
        ({"size": "192"}, "size is like (64, 96), not (192,)"),
        ({"size": "axb"}, "size is several numbers"),
        ({"lr": "high"}, "lr is like 0.01, not 'high'"),
        ({"augment": 3}, "no field 'augment'"),
        ({"augment.flpi": 1}, "augment has no option 'flpi'. Did you mean 'flip'?"),
        ({"augment.scale": "axb"}, "augment.scale is several numbers"),
        ({"lr.base": 3}, "no field 'lr.base'"),
    ],
)
def test_fields_of_presets_are_checked(changes: dict[str, Any], message: str) -> None:
    with pytest.raises((KeyError, ValueError)) as error:
        PRESETS["segmentation"]["quick"].changed(**changes)
    assert message in str(error.value)


def test_fields_of_presets_can_be_set() -> None:
    quick = PRESETS["segmentation"]["segformer_b1_ade20k"]
    other = quick.changed(**{"size": "192x256", "epochs": 3, "augment.flip": 0.0, "options.depths": [1], "clip": 1.0})
    assert (other.size, other.epochs, other.steps, other.clip) == ((192, 256), 3.0, None, 1.0)
    assert other.augment == {**quick.augment, "flip": 0.0}
    assert other.options == {"depths": [1]}
    pairs = quick.changed(**{"augment.scale": "0.5x2", "augment.longest": "none", "augment.crops": 320})
    assert pairs.augment == {**quick.augment, "scale": (0.5, 2.0), "longest": None, "crops": (320,)}
    assert quick.augment.get("flip") is None
