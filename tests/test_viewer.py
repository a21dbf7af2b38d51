"""`see`: the weights it shows are those that make the output, and the page holds what it was given."""

import base64
import json
import re
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image
from safetensors.torch import save_file
from torch import Tensor, nn
from typer.testing import CliRunner

import sapa
from sapa.cli import app
from sapa.viewer import page, photo
from sapa.viewer.checkpoints import load
from sapa.viewer.features import channel_painter, features, painter
from sapa.viewer.figures import entropy
from sapa.viewer.points import suggest
from sapa.viewer.report import examine
from sapa.viewer.weights import LINEAR, Weights, weights

# part of the guide passes by the weights; the channels are mixed, or have weights of their own; x moves the weights
GATED = ("fade", "fade_lite")
MIXED = ("pixel_shuffle", "deconv", "bilinear_additive", "dupsample", "max_unpool", "indexnet_hin")
MIXED += ("indexnet_m2o", "indexnet_o2o")
CURVED = ("pixel_tcl", "sapa_d", "freqfusion")
SAMPLERS = ("dysample", "dysample_plus", "dysample_s", "dysample_s_plus")
WEIGHTED = [name for name in sapa.UPSAMPLERS if name not in MIXED + CURVED + SAMPLERS]


def maps(h: int = 7, w: int = 6, H: int = 14, W: int = 12, channels: int = 32) -> tuple[Tensor, Tensor]:
    return torch.randn(1, channels, h, w), torch.randn(1, channels, H, W)


def found(up: nn.Module, x: Tensor, guide: Tensor) -> Weights:
    with torch.no_grad():
        return weights(up, x, guide)


def sums(w: Weights, x: Tensor, size: tuple[int, int]) -> Tensor:
    """The definition, point by point: y[p] = sum over the window of w[t, p] x[c(p) + t]."""
    (H, W), (h, low_w), (Kh, Kw) = size, x.shape[2:], w.kernel_size
    y = torch.zeros(1, x.shape[1], H, W)
    for row in range(H):
        for column in range(W):
            middle = (2 * row + 1) * h // (2 * H), (2 * column + 1) * low_w // (2 * W)
            for t in range(Kh * Kw):
                i, j = middle[0] + t // Kw - Kh // 2, middle[1] + t % Kw - Kw // 2
                if 0 <= i < h and 0 <= j < low_w:
                    y[..., row, column] += w.values[t, row, column] * x[..., i, j]
    return y


@pytest.mark.parametrize("name", WEIGHTED)
def test_weights_make_the_output(name: str) -> None:
    x, guide = maps()
    up = sapa.build(name, 32, **({"gate": False} if name in GATED else {})).eval()
    w = found(up, x, guide)
    assert w.kind != "derivative"
    with torch.no_grad():
        torch.testing.assert_close(sums(w, x, (14, 12)), up(x, guide), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", ["nearest", "bilinear", "bicubic", "joint_bilateral", "sapa_g", "a2u"])
def test_weights_make_the_output_at_odd_ratios(name: str) -> None:
    x, guide = maps(5, 4, 13, 8) if name != "a2u" else maps(7, 4, 13, 8)
    up = sapa.build(name, 32, scale=(3, 2) if name != "a2u" else 2).eval()
    with torch.no_grad():
        torch.testing.assert_close(sums(found(up, x, guide), x, (13, 8)), up(x, guide), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("scale", [2, 3])
@pytest.mark.parametrize("name", MIXED + CURVED)
def test_other_weights_are_the_derivative_by_autograd(name: str, scale: int) -> None:
    channels = 36 if scale == 3 else 32
    x, guide = maps(11, 10, 11 * scale, 10 * scale, channels)
    up = sapa.build(name, channels, scale=scale).eval()
    for parameter in up.parameters():
        nn.init.normal_(parameter, std=0.05)
    w = found(up, x, guide)
    assert w.kind == ("linear" if isinstance(up, LINEAR) else "derivative")
    wide, (x, guide) = up.double(), (x.double(), guide.double())
    x.requires_grad_()
    y = wide(x, guide)
    (Kh, Kw), (row, column) = w.kernel_size, (5, 4)
    for p in ((row * scale, column * scale), (row * scale + scale - 1, column * scale + 1)):
        (gradient,) = torch.autograd.grad(y[0, :, p[0], p[1]].mean(), x, retain_graph=True)
        dense = gradient[0].sum(0)  # [h, w]
        top, left = row - Kh // 2, column - Kw // 2
        window = dense[top : top + Kh, left : left + Kw]
        own = w.values[:, p[0], p[1]].view(Kh, Kw).double()
        torch.testing.assert_close(own, window, atol=2e-4 * float(w.values.abs().max()), rtol=1e-3)
        outside = dense.abs().sum() - window.abs().sum()
        assert float(outside) <= 0.05 * float(dense.abs().sum()), "almost nothing lies outside the window"


@pytest.mark.parametrize("name", SAMPLERS)
def test_weights_of_a_sampler_are_those_of_its_places(name: str) -> None:
    x, guide = maps()
    up = sapa.build(name, 32, groups=4).eval()
    for parameter in up.parameters():
        nn.init.normal_(parameter, std=0.15)  # it starts as bilinear, which would be too easy
    nn.init.uniform_(up.offset.bias, -4, 4)  # type: ignore[attr-defined]
    flat = x[:, :1].repeat(1, 32, 1, 1) * torch.linspace(0.5, 1.5, 32)[:, None, None]
    w = found(up, flat, guide)
    assert w.kind == "sampled"
    assert w.kernel_size > (3, 3), "it looks further than bilinear"
    # channel by channel the groups look elsewhere; of a map that all share, the mean is what the weights give
    with torch.no_grad():
        sampled = (up(flat) / torch.linspace(0.5, 1.5, 32)[:, None, None]).mean(1, keepdim=True)
    torch.testing.assert_close(sums(w, x[:, :1], (14, 12)), sampled, atol=1e-5, rtol=1e-5)


def test_weights_of_sapa_are_its_kernels() -> None:
    x, guide = maps()
    w = found(sapa.build("sapa_i", 32, border="mask"), x, guide)
    q, k = (F.layer_norm(m.movedim(1, -1), (32,)).movedim(-1, 1) for m in (guide, x))
    torch.testing.assert_close(w.values, sapa.kernels(q, k, kernel_size=5, border="mask")[0])


def test_weights_of_groups_are_their_mean() -> None:
    up = sapa.build("carafe", 32, up_group=2).eval()
    nn.init.normal_(up.content_encoder.weight, std=0.5)  # type: ignore[attr-defined]
    x, guide = torch.randn(1, 32, 7, 6), torch.randn(1, 32, 14, 12)
    flat = x[:, :1].expand(-1, 32, -1, -1).contiguous()
    with torch.no_grad():
        expected = up(flat).mean(1, keepdim=True)
        torch.testing.assert_close(sums(found(up, flat, guide), flat[:, :1], (14, 12)), expected, atol=1e-5, rtol=1e-5)


def test_a_module_of_another_library_is_seen_by_its_derivative() -> None:
    x, guide = maps()
    w = found(nn.Upsample(scale_factor=2, mode="bilinear"), x, guide)
    assert (w.kind, w.kernel_size) == ("derivative", (3, 3))
    torch.testing.assert_close(w.values, found(sapa.build("bilinear", 32), x, guide).values, atol=1e-5, rtol=1e-4)


def two_halves(height: int = 64, width: int = 64) -> np.ndarray:
    """Dark red on the left, light blue on the right."""
    picture = np.empty((height, width, 3), np.uint8)
    picture[:, : width // 2], picture[:, width // 2 :] = (120, 20, 10), (170, 200, 240)
    return picture


def test_suggested_points_lie_on_both_sides_of_the_edge_and_where_it_is_flat() -> None:
    picture = two_halves()
    picture[:, 30:32] = 90  # so that the edge is not on the border of a cell
    report = examine(picture, ["sapa_i"], size=64)
    places = dict(report.points)
    assert list(places) == ["an edge", "its other side", "flat"]
    assert places["an edge"][1] < 32 <= places["its other side"][1]
    kernel = {name: report.seen[0].weights.values[:, row, column].view(5, 5) for name, (row, column) in places.items()}
    torch.testing.assert_close(kernel["flat"], torch.full((5, 5), 1 / 25), atol=1e-3, rtol=0)
    middle = (2 * places["its other side"][1] + 1) * 16 // 128
    other_side = [j for j in range(5) if middle + j - 2 < 8]
    assert float(kernel["its other side"][:, other_side].sum()) < 1e-3


def test_maps_too_small_for_a_window_have_their_middle() -> None:
    assert suggest(torch.randn(1, 3, 2, 9), torch.randn(1, 3, 4, 18)) == [("the middle", (2, 9))]


def test_features_of_like_colours_are_alike() -> None:
    colours = torch.tensor([[0.5, 0.5, 0.5], [0.52, 0.5, 0.5], [0.9, 0.1, 0.2]]).T[None, :, None]
    f = features(colours, 256)[0, :, 0]
    near, far = (float(F.cosine_similarity(f[:, 0], f[:, i], dim=0)) for i in (1, 2))
    assert near > 0.99
    assert far < 0.5


def test_painters() -> None:
    y = torch.randn(1, 8, 20, 30)
    colours = painter(y)(y)
    assert colours.shape == (20, 30, 3)
    assert 0 <= float(colours.min()) < 0.02
    assert float(painter(torch.ones(1, 4, 5, 5))(torch.ones(1, 4, 5, 5)).std()) == 0
    assert painter(y[:, :1])(y[:, :1]).shape == (20, 30, 3)
    channel = channel_painter(y, (5, 2, 0))(y)[..., 1].flatten()
    assert float(torch.corrcoef(torch.stack([channel, y[0, 2].flatten()]))[0, 1]) > 0.98
    with pytest.raises(ValueError, match="one channel or three of 0 to 7"):
        channel_painter(y, (0, 8, 1))


def saved(path: Path, image: Image.Image, **options: Any) -> Tensor:
    image.save(path, **options)
    return photo.read(path)


def test_photographs_of_all_kinds(tmp_path: Path) -> None:
    ramp = np.arange(48, dtype=np.uint8).reshape(4, 4, 3) * 5
    plain = photo.read(ramp)
    torch.testing.assert_close(plain[0].permute(1, 2, 0), torch.from_numpy(ramp) / 255)
    assert torch.equal(photo.read(torch.from_numpy(ramp).permute(2, 0, 1)), plain)
    assert torch.equal(saved(tmp_path / "rgb.png", Image.fromarray(ramp)), plain)
    turned = Image.Exif()
    turned[0x0112] = 6  # to be turned clockwise
    exif = saved(tmp_path / "exif.png", Image.fromarray(ramp), exif=turned)
    assert torch.equal(exif, plain.rot90(-1, (2, 3)))
    deep = saved(tmp_path / "deep.png", Image.fromarray(np.full((2, 3), 40_000, np.uint16)))
    torch.testing.assert_close(deep, torch.full((1, 3, 2, 3), 40_000 / 65_535))
    alpha = np.zeros((2, 2, 4), np.uint8)
    alpha[0] = (255, 0, 0, 255)
    over_white = saved(tmp_path / "alpha.png", Image.fromarray(alpha))
    assert over_white[0, :, 0, 0].tolist() == [1, 0, 0]
    assert over_white[0, :, 1, 0].tolist() == [1, 1, 1]
    palette = Image.fromarray(ramp).convert("P", palette=Image.Palette.ADAPTIVE)
    torch.testing.assert_close(saved(tmp_path / "palette.png", palette), plain, atol=0.02, rtol=0)
    assert torch.equal(photo.read(np.array([[0.25, 1.0]])), torch.tensor([[0.25, 1.0]]).expand(1, 3, 1, 2))
    assert photo.read(np.array([[-3.0, np.nan, 5.0]])).max() == 1
    for wrong in (torch.zeros(2, 3, 4, 4), np.zeros((4, 4, 5)), torch.zeros(3, 0, 4)):
        with pytest.raises(ValueError, match="image must be"):
            photo.read(wrong)
    with pytest.raises(TypeError, match="must be a path"):
        photo.read(7)


@pytest.mark.parametrize(
    ("size", "low"), [((512, 512), (48, 48)), ((300, 451), (32, 48)), ((9, 4000), (1, 48)), ((3, 2), (1, 1))]
)
def test_photographs_shrink_to_whole_cells(size: tuple[int, int], low: tuple[int, int]) -> None:
    assert photo.cells(size, (4, 4), 192) == low
    assert photo.fit(torch.rand(1, 3, *size), low, (4, 4)).shape[2:] == (4 * low[0], 4 * low[1])


def test_packed_weights_come_back() -> None:
    w = torch.randn(9, 5, 7) * 0.3
    packed = page.pack(w)
    raw = np.frombuffer(zlib.decompress(base64.b64decode(packed["bytes"])), np.uint8).reshape(2, 9, 5, 7)
    levels = raw[0].astype(int) * 256 + raw[1]
    back = packed["low"] + (packed["high"] - packed["low"]) * levels / 65_535
    assert np.abs(back - w.numpy()).max() <= 0.51 * (packed["high"] - packed["low"]) / 65_535


def data_of(text: str) -> dict[str, Any]:
    (data,) = re.findall(r'<script type="application/json" id="report">(.*?)</script>', text, re.DOTALL)
    return json.loads(data)


def test_a_page_is_small_and_complete(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (240, 240, 3), np.uint8)
    path = sapa.see(noise, output=tmp_path / "new" / "report.html")
    text = path.read_text()
    assert path.stat().st_size < 6_000_000, "noise is the worst that can be"
    assert [entry["name"] for entry in data_of(text)["upsamplers"]] == [
        *("nearest", "bilinear", "joint_bilateral", "sapa_i")
    ]
    assert not re.search(r"(src|href)\s*=\s*[\"']?(https?:|//)|url\(|@import|fetch\(|XMLHttpRequest", text)
    assert "{{" not in text


def test_every_script_is_on_the_page() -> None:
    assert sorted(page.SCRIPTS) == sorted(p.name[:-3] for p in page.SOURCE.iterdir() if p.name[-3:] == ".js")


def test_names_cannot_become_markup(tmp_path: Path) -> None:
    evil = "<img src=x onerror=alert(1)>.png"
    Image.fromarray(two_halves()).save(tmp_path / evil)
    sapa.see(tmp_path / evil, {"</script><b>": "nearest"}, output=tmp_path / "r.html", size=32)
    text = (tmp_path / "r.html").read_text()
    assert "<img" not in text
    assert "</script><b>" not in text
    assert data_of(text)["upsamplers"][0]["name"] == "</script><b>"


def test_given_maps_and_modules() -> None:
    x, guide = torch.randn(1, 32, 6, 7), torch.randn(1, 16, 12, 14)
    trained = sapa.SAPA(32, guide_channels=16, out_channels=8).train()
    report = examine(x=x, guide=guide, upsamplers={"mine": trained, "other": "sapa_b", "plain": "bilinear"})
    assert [seen.is_trained for seen in report.seen] == [True, False, None]
    assert [seen.error for seen in report.seen] == [None] * 3
    assert trained.training, "a module is left as it was"
    with torch.no_grad():
        torch.testing.assert_close(report.seen[0].weights.values, trained.kernels(x, guide)[0])
    numbered = examine(x=x, guide=guide, upsamplers=["bilinear", trained, trained])
    assert [seen.name for seen in numbered.seen] == ["bilinear", "SAPA", "SAPA 2"]


def test_what_cannot_be_seen_is_said() -> None:
    x, guide = torch.randn(1, 8, 4, 4), torch.randn(1, 8, 16, 16)
    with pytest.raises(ValueError, match="give an image, or the two maps"):
        sapa.see()
    with pytest.raises(ValueError, match="belong together"):
        sapa.see(x=x)
    with pytest.raises(ValueError, match=r"pass x\[:1\]"):
        sapa.see(x=x.expand(2, -1, -1, -1), guide=guide.expand(2, -1, -1, -1))
    with pytest.raises(ValueError, match="see: guide holds NaN or infinity"):
        sapa.see(x=x, guide=guide / 0)
    with pytest.raises(ValueError, match="see: x holds NaN or infinity"):
        sapa.see(x=x * torch.nan, guide=guide)
    with pytest.raises(ValueError, match="pass a larger size"):
        sapa.see(x=x, guide=guide, size=8)
    with pytest.raises(ValueError, match="scale is 64, but a map of size=32"):
        sapa.see(two_halves(), scale=64, size=32)
    with pytest.raises(ValueError, match="upsamplers is empty"):
        sapa.see(x=x, guide=guide, upsamplers=[])
    with pytest.raises(ValueError, match=r"must end in \.html"):
        sapa.see(x=x, guide=guide, output="report.gif")
    with pytest.raises(ValueError, match="must have the size of the guide"):
        sapa.see(x=x, guide=guide, upsamplers=nn.Upsample(scale_factor=2))
    with pytest.raises(ValueError, match="take channels of x: a 8, b 16"):
        sapa.see(two_halves(), {"a": sapa.build("carafe", 8), "b": sapa.build("carafe", 16)})
    with pytest.raises(KeyError, match="no upsampler 'sapa_x'"):
        sapa.see(x=x, guide=guide, upsamplers="sapa_x")


def test_without_pillow_it_says_what_to_install() -> None:
    code = "import sys; sys.modules['PIL'] = None; import sapa; sapa.see('photo.jpg')"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.stderr.endswith("ModuleNotFoundError: see needs PIL: pip install 'sapa[see]'\n")


def test_entropy() -> None:
    w = torch.zeros(4, 1, 3)
    w[:, 0, 0], w[0, 0, 1], w[:2, 0, 2] = 0.25, 1, torch.tensor([0.5, -0.5])
    torch.testing.assert_close(entropy(w), torch.tensor([[2.0, 0.0, 1.0]]))


def test_figures(tmp_path: Path) -> None:
    pdf = sapa.see(two_halves(), ["nearest", "sapa_i"], output=tmp_path / "figure.pdf", size=32)
    assert pdf.read_bytes().startswith(b"%PDF")
    png = sapa.see(two_halves(40, 80), ["bilinear", "bicubic", "sapa_i"], output=tmp_path / "figure.png", size=32)
    with Image.open(png) as picture:
        assert picture.width > 1000
        assert len(picture.convert("RGB").getcolors(1 << 24)) > 50


CHECKPOINTS = {
    "sapa_b": ({"kernel_size": 5, "embed_dim": 16}, 24, 40),
    "sapa_g": ({"norm": "group"}, 64, 32),
    "sapa_p": ({"norm": "none", "bias": False}, 24, 40),
    "fade": ({"kernel_size": 3}, 24, 40),
    "carafe": ({"up_kernel": 3, "compressed_channels": 20}, 24, 24),
    "dysample": ({}, 24, 24),
    "indexnet_o2o": ({}, 24, 24),
    "deconv": ({}, 24, 24),
}


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_a_checkpoint_says_how_it_was_built(name: str, tmp_path: Path) -> None:
    options, channels, guide_channels = CHECKPOINTS[name]
    up = sapa.build(name, channels, guide_channels, **options).eval()
    torch.save(up.state_dict(), tmp_path / "up.pt")
    again = load(name, tmp_path / "up.pt", scale=2)
    x, guide = torch.randn(1, channels, 5, 4), torch.randn(1, guide_channels, 10, 8)
    with torch.no_grad():
        assert torch.equal(again(x, guide), up(x, guide))


def test_a_checkpoint_of_a_whole_model(tmp_path: Path) -> None:
    model = nn.ModuleDict({"head": nn.Conv2d(4, 4, 3), "up1": sapa.SAPA(16), "up2": sapa.build("carafe", 16)})
    save_file(model.state_dict(), tmp_path / "model.safetensors")
    again = load("sapa_b", tmp_path / "model.safetensors", scale=2, kernel_size=3)
    assert torch.equal(again.state_dict()["q.weight"], model.state_dict()["up1.q.weight"])
    assert again.kernel_size == (3, 3)  # type: ignore[attr-defined]
    model["up3"] = sapa.SAPA(16)
    torch.save({"state_dict": model.state_dict()}, tmp_path / "model.pt")
    with pytest.raises(ValueError, match="more than one sapa_b: up1, up3"):
        load("sapa_b", tmp_path / "model.pt", scale=2)
    third = load("sapa_b", f"{tmp_path / 'model.pt'}:up3", scale=2)
    assert torch.equal(third.state_dict()["k.weight"], model.state_dict()["up3.k.weight"])
    with pytest.raises(ValueError, match=r"holds no fade for scale=2: head\.weight \[4, 4, 3, 3\]"):
        load("fade", tmp_path / "model.pt", scale=2)
    for broken in ("broken.pt", "broken.safetensors"):
        (tmp_path / broken).write_bytes(b"not a checkpoint")
        with pytest.raises(ValueError, match="is no checkpoint that can be read"):
            load("fade", tmp_path / broken, scale=2)
    torch.save([1, 2], tmp_path / "list.pt")
    with pytest.raises(ValueError, match="holds no state dict"):
        load("fade", tmp_path / "list.pt", scale=2)


def test_names_of_the_released_checkpoints_are_known(tmp_path: Path) -> None:
    state = {key.replace("k.", "k.proj.").replace("q.", "q.proj."): w for key, w in sapa.SAPA(16).state_dict().items()}
    torch.save(state, tmp_path / "old.pt")
    assert torch.equal(load("sapa_b", tmp_path / "old.pt", scale=2).state_dict()["k.weight"], state["k.proj.weight"])


def test_command(tmp_path: Path) -> None:
    image, output, pdf = tmp_path / "photo.png", tmp_path / "out.html", tmp_path / "figure.pdf"
    Image.fromarray(two_halves()).save(image)
    torch.save(sapa.build("sapa_b", 24, 20, scale=4).state_dict(), tmp_path / "up.pt")
    options = ["see", str(image), "-o", str(output), "--size", "48", "--pdf", str(pdf), "--colours", "0,1,2"]
    result = CliRunner().invoke(app, [*options, "-u", "bilinear", "--checkpoint", f"sapa_b={tmp_path / 'up.pt'}"])
    assert result.exit_code == 0, result.output
    assert str(output) in result.output.replace("\n", "")
    assert pdf.exists()
    data = data_of(output.read_text())
    assert [(entry["name"], entry["isTrained"]) for entry in data["upsamplers"]] == [
        ("bilinear", None),
        ("sapa_b", True),
    ]
    assert (data["size"], data["channels"], data["colours"]) == ([48, 48], [24, 20], [0, 1, 2])
    # what has as many channels as the checkpoint wants, but not of both maps
    result = CliRunner().invoke(app, [*options[:6], "--checkpoint", f"sapa_b={tmp_path / 'up.pt'}"])
    names = [entry["name"] for entry in data_of(output.read_text())["upsamplers"]]
    assert names == ["nearest", "bilinear", "joint_bilateral", "sapa_b"], result.output
    for wrong, message in {
        ("see", str(tmp_path / "none.png")): "No such file",
        ("see", str(image), "-u", "sapa_x"): "no upsampler",
        ("see", str(image), "--checkpoint", "sapa_b"): "as NAME=FILE",
        ("see", str(image), "--colours", "red"): "such as 0,1,2",
        ("see", str(output)): "cannot identify image file",
    }.items():
        result = CliRunner().invoke(app, [*wrong, "--size", "32"])
        assert result.exit_code == 1
        assert message in result.output
