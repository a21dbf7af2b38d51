"""The stages of a model: the maps that reach them are those of the model, and `see` shows them."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor, nn
from typer.testing import CliRunner

import sapa
from bench.models import UNet
from sapa.cli import app
from sapa.surgery.stages import Stage, stages


@pytest.fixture
def photo() -> Tensor:
    torch.manual_seed(0)
    return torch.rand(1, 3, 32, 64)


def maps_by_hand(model: UNet, x: Tensor) -> list[tuple[Tensor, Tensor]]:
    """What `UNet.forward` has at its two interpolations."""
    e0 = torch.relu(model.encoder[0](x))
    e1 = torch.relu(model.encoder[1](F.max_pool2d(e0, 2)))
    e2 = torch.relu(model.encoder[2](F.max_pool2d(e1, 2)))
    lifted = F.interpolate(e2, scale_factor=2, mode="bilinear")
    d1 = torch.relu(model.decoder[0](torch.cat([lifted, e1], 1)))
    return [(e2, e1), (d1, e0)]


def test_sites_with_the_maps_of_the_model(photo: Tensor) -> None:
    model = UNet()
    before, names = model(photo), list(model.state_dict())
    found = stages(model, photo)
    assert [(stage.name, stage.up, stage.operator) for stage in found] == [
        ("self[0]", "bilinear", "interpolate bilinear"),
        ("self[1]", "bilinear", "interpolate bilinear"),
    ]
    for stage, (x, guide) in zip(found, maps_by_hand(model, photo), strict=True):
        assert torch.equal(stage.x, x)
        assert stage.guide is not None
        assert torch.equal(stage.guide, guide)
        assert stage.size == guide.shape[2:]
    assert torch.equal(model(photo), before)
    assert list(model.state_dict()) == names
    assert model.training


def test_upsamplers_of_a_swapped_model(photo: Tensor) -> None:
    model = UNet()
    sapa.swap_(model, "sapa_b", photo)
    outputs: dict[str, Tensor] = {}
    for name, module in model.named_modules():
        if isinstance(module, sapa.SAPA):
            module.register_forward_hook(lambda *args, name=name: outputs.update({name: args[2]}))
    model(photo)
    found = stages(model, photo)
    assert [stage.name for stage in found] == ["sapa.0.steps.0", "sapa.1.steps.0"]
    for stage in found:
        assert isinstance(stage.up, sapa.SAPA)
        assert torch.equal(stage.up(stage.x, stage.guide), outputs[stage.name])
        assert "upsample" not in stage.up.__dict__


def test_a_stage_without_a_guide(photo: Tensor) -> None:
    model = UNet()
    sapa.swap_(model, "carafe", photo)
    first, second = stages(model, photo)
    assert first.guide is None
    assert (first.size, second.size) == ((16, 32), (32, 64))


class Twice(nn.Module):
    """One upsampler for two steps, an interpolation by corners, and a step that learns."""

    def __init__(self, up: Any = None) -> None:
        super().__init__()
        self.up, self.stem = up, nn.Conv2d(3, 4, 3, padding=1)
        self.learned = nn.ConvTranspose2d(4, 4, 2, stride=2)

    def forward(self, image: Tensor) -> Tensor:
        full = self.stem(image)
        half, small = F.avg_pool2d(full, 2), F.avg_pool2d(full, 4)
        if self.up is not None:
            return self.up(self.up(small, half) + half, full)
        y = half + F.interpolate(small, size=half.shape[-2:], mode="bilinear", align_corners=True)
        return full + self.learned(y)


def test_an_upsampler_that_runs_twice(photo: Tensor) -> None:
    found = stages(Twice(sapa.build("sapa_i", 4)), photo)
    assert [(stage.name, stage.size) for stage in found] == [("up#0", (16, 32)), ("up#1", (32, 64))]


def test_operators_that_no_upsampler_equals(photo: Tensor) -> None:
    model = Twice()
    corners, learned = stages(model, photo)
    assert isinstance(corners.up, nn.Module)
    expected = F.interpolate(corners.x, size=(16, 32), mode="bilinear", align_corners=True)
    assert torch.equal(corners.up(corners.x), expected)
    assert isinstance(learned.up, nn.Module)
    assert torch.equal(learned.up(learned.x), model.learned(learned.x))
    assert learned.up(learned.x.double()).dtype == torch.float64
    assert model.learned.weight.requires_grad


def test_a_model_without_stages_says_so(photo: Tensor) -> None:
    with pytest.raises(ValueError, match="makes no map"):
        stages(nn.Conv2d(3, 4, 1), photo)


def shown(path: Path) -> dict[str, Any]:
    data = re.search(r'<script type="application/json"[^>]*>(.*?)</script>', path.read_text(), flags=re.DOTALL)
    assert data is not None
    return json.loads(data[1])


def test_see_shows_a_stage(photo: Tensor, tmp_path: Path) -> None:
    torch.manual_seed(0)
    page = shown(sapa.see(photo, model=UNet(), stage=0, output=tmp_path / "page.html"))
    assert page["title"] == "photograph, UNet, self[0] (stage 0 of 0-1)"
    assert [up["name"] for up in page["upsamplers"]] == ["own bilinear", "nearest", "joint_bilateral"]
    assert (page["low"], page["size"], page["channels"]) == ([8, 16], [16, 32], [32, 16])


def test_see_names_what_the_model_learned(photo: Tensor, tmp_path: Path) -> None:
    model = UNet()
    sapa.swap_(model, "sapa_b", photo)
    page = shown(sapa.see(photo, ["bilinear"], model=model, output=tmp_path / "page.html"))
    assert page["title"].endswith("sapa.1.steps.0 (stage 1 of 0-1)")
    assert [up["name"] for up in page["upsamplers"]] == ["own SAPA", "bilinear"]


def test_see_makes_the_photograph_smaller_for_a_large_stage(tmp_path: Path) -> None:
    photo = torch.rand(3, 256, 512)
    assert shown(sapa.see(photo, model=UNet(), output=tmp_path / "page.html", size=160))["size"] == [64, 160]


def test_see_without_a_guide_takes_the_photograph(photo: Tensor, tmp_path: Path) -> None:
    model = UNet()
    sapa.swap_(model, "dysample", photo)
    page = shown(sapa.see(photo, model=model, stage="sapa.0.steps.0", output=tmp_path / "page.html"))
    assert (page["channels"], page["size"]) == ([32, 3], [16, 32])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"stage": "self[7]"}, r"no stage 'self\[7\]'. Did you mean 'self\[0\]'\? Available: self\[0\], self\[1\]"),
        ({"stage": 2}, "no stage 2"),
        ({"x": torch.zeros(1, 3, 2, 2)}, "neither x nor guide"),
    ],
)
def test_see_explains(photo: Tensor, tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        sapa.see(photo, model=UNet(), output=tmp_path / "page.html", **options)


def test_the_command(photo: Tensor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    picture = (photo[0].permute(1, 2, 0) * 255).to(torch.uint8).numpy()
    Image.fromarray(picture).save("photo.png")
    torch.save(UNet().state_dict(), "weights.pt")
    arguments = ["see", "photo.png", "--model", "bench.models:UNet"]
    done = CliRunner().invoke(app, [*arguments, "--weights", "weights.pt", "--stage", "0", "-u", "sapa_b"])
    assert done.exit_code == 0, done.output
    page = shown(Path("report.html"))
    assert page["title"] == "photo.png, UNet, self[0] (stage 0 of 0-1)"
    assert [(up["name"], up["isTrained"]) for up in page["upsamplers"]] == [("own bilinear", None), ("sapa_b", False)]

    torch.save({"head.weight": torch.zeros(1)}, "wrong.pt")
    done = CliRunner().invoke(app, [*arguments, "--weights", "wrong.pt"])
    assert done.exit_code == 1
    assert "wrong.pt does not fit bench.models:UNet" in done.output
    done = CliRunner().invoke(app, ["see", "photo.png", "--stage", "0"])
    assert "belong to --model" in done.output


def test_stages_of_a_model_of_the_paper() -> None:
    model = sapa.models.build("a2u_matting_r34", "sapa_b")
    found: list[Stage] = stages(model, torch.rand(1, 4, 32, 32))
    assert [stage.x.shape[1] for stage in found] == [256, 128, 64, 64]
