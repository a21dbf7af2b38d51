"""The models of the paper: their cost beside its tables, their wiring beside the libraries', their errors."""

import math
import subprocess
import sys
from functools import cache, partial
from pathlib import Path
from typing import Any
from urllib.error import URLError

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

import sapa
from sapa import paper_cells
from sapa.complexity import parameters
from sapa.models import MODELS, build, fitting
from sapa.nn import Upsampler

transformers = pytest.importorskip("transformers", reason="needs transformers: pip install 'sapa[dev]'")
torchvision = pytest.importorskip("torchvision", reason="needs torchvision: pip install 'sapa[dev]'")

PAPER = {name: paper_cells.MODELS[model.paper] for name, model in MODELS.items() if model.paper in paper_cells.MODELS}
SIDES = {"segformer_b1": 512, "maskformer_swin_b": 640, "mask2former_swin_b": 640}
CELLS = [(name, module) for name, paper in PAPER.items() for module in paper.printed]

# where what we add is not what is printed; paper_cells.REASONS and docs/paper.md say why
DIFFERENT = {
    ("segformer_b1", "A2U", "FLOPs"): "+0.40",
    ("segformer_b1", "SAPA-G", "FLOPs"): "+1.14",
    ("segformer_b1", "SAPA-G", "Params"): "+0.16",
    ("maskformer_swin_b", "SAPA-G", "FLOPs"): "+0.66",
    ("maskformer_swin_b", "SAPA-G", "Params"): "+0.08",
    ("mask2former_swin_b", "CARAFE", "FLOPs"): "+0.64",
    ("mask2former_swin_b", "SAPA-G", "FLOPs"): "+0.50",
    ("mask2former_swin_b", "SAPA-G", "Params"): "+0.03",
    ("faster_rcnn_r50", "SAPA-G", "Params"): "+0.08",
    ("bts_r50", "IndexNet", "Params"): "+44.19",
    ("a2u_matting_r34", "IndexNet", "Params"): "+2.89",
    ("a2u_matting_r34", "SAPA-G", "Params"): "+0.05",
}


def swin(**options: Any) -> Any:
    stages = ["stage1", "stage2", "stage3", "stage4"]
    tiny = {"embed_dim": 32, "depths": [1, 1, 1, 1], "num_heads": [1, 2, 4, 8], "window_size": 4, "image_size": 64}
    return transformers.SwinConfig(**{**tiny, "out_features": stages, **options})


def tiny(name: str) -> dict[str, Any]:
    """Options with which a model runs in a moment; what the paper replaces stays as it is."""
    detr = {"decoder_layers": 1, "encoder_layers": 1, "decoder_ffn_dim": 64, "num_queries": 5}
    return {
        "segformer_b1": {"hidden_sizes": [16, 32, 40, 64], "depths": [1, 1, 1, 1]},
        "maskformer_swin_b": {"decoder_config": transformers.DetrConfig(**detr)},
        "mask2former_swin_b": {"encoder_layers": 1, "decoder_layers": 2, "num_queries": 5},
        "faster_rcnn_r50": {"min_size": 64, "max_size": 64},
    }.get(name, {}) | ({"backbone_config": swin()} if "swin" in name else {})


def shapes(name: str, upsampler: Any = None, **options: Any) -> nn.Module:
    """A model on the meta device; the levels of Mask2Former are made on the CPU whatever one says."""
    with torch.device("meta"):
        return build(name, upsampler, **options).to("meta").eval()


def gigamacs(model: nn.Module, side: int, then: Any = None) -> float:
    """As the paper counts: without interpolation, which FlopCounterMode does not know."""
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        output = model(torch.empty(1, 3, side, side, device="meta"))
        if then is not None:
            then(output)
    return counter.get_total_flops() / 2e9


@cache
def published(name: str) -> tuple[float, float]:
    """Millions of parameters and, at the size of the paper, GFLOPs; the rest of the model is small."""
    model = shapes(name, **tiny(name))
    return parameters(model) / 1e6, gigamacs(model, SIDES[name]) if name in SIDES else 0.0


@pytest.mark.parametrize(("name", "module"), CELLS)
def test_what_an_upsampler_adds_is_what_the_paper_prints(name: str, module: str) -> None:
    model = shapes(name, paper_cells.NAMES[module], **tiny(name))
    params, flops = published(name)
    added = {"Params": parameters(model) / 1e6 - params}
    if name in SIDES:
        added["FLOPs"] = gigamacs(model, SIDES[name]) - flops
    for column, cell in PAPER[name].printed[module].items():
        decimals = len(cell.partition(".")[2])
        expected = DIFFERENT.get((name, module, column), cell)
        assert f"+{added[column]:.{decimals}f}" == expected, column
        assert (expected != cell) == ((name, module, column) in DIFFERENT)


def test_every_cell_that_differs_has_its_reason() -> None:
    for name, module, column in DIFFERENT:
        paper = MODELS[name].paper
        assert (paper, module, column) in paper_cells.REASONS or (module, column) in paper_cells.REASONS


# what the papers count besides: an unused classifier of mmsegmentation's base class, ResNet's own in BTS
UNUSED = {"segformer_b1": 128 * 150 + 150, "bts_r50": 2048 * 1000 + 1000}


@pytest.mark.parametrize(
    ("name", "printed"),
    [
        ("segformer_b1", "13.74"),
        ("maskformer_swin_b", "102"),
        ("mask2former_swin_b", "107"),
        ("faster_rcnn_r50", "41.53"),
        ("bts_r50", "49.53"),
        ("a2u_matting_r34", "8.05"),
    ],
)
def test_parameters_of_the_published_models(name: str, printed: str) -> None:
    # stem and first stage of the detector are frozen, and not counted
    model = shapes(name, **({"trainable_layers": 3} if name == "faster_rcnn_r50" else {}))
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad) + UNUSED.get(name, 0)
    assert f"{trained / 1e6:.{len(printed.partition('.')[2])}f}" == printed


@pytest.mark.parametrize(
    ("name", "printed"), [("segformer_b1", 15.91), ("maskformer_swin_b", 195), ("mask2former_swin_b", 223)]
)
def test_flops_of_the_published_models(name: str, printed: float) -> None:
    from sapa.models.maskformer import class_maps

    side = SIDES[name]
    # with the masks a label for each pixel is made, which is a large product of its own
    then = None if name == "segformer_b1" else partial(class_maps, size=(side, side))
    assert abs(gigamacs(shapes(name), side, then) / printed - 1) < 0.01


def test_segnet_has_thirteen_convolutions_on_either_side() -> None:
    model = shapes("segnet_vgg16", num_classes=12)
    convs = [part for part in model.modules() if isinstance(part, nn.Conv2d)]
    assert [conv.out_channels for conv in convs] == [
        *(64, 64, 128, 128, 256, 256, 256, 512, 512, 512, 512, 512, 512),
        *(512, 512, 512, 512, 512, 256, 256, 256, 128, 128, 64, 64, 12),
    ]


def image(name: str, B: int = 2, size: tuple[int, int] = (64, 96)) -> Tensor:
    return torch.rand(B, 4 if name == "a2u_matting_r34" else 3, *size)


def loss(name: str, model: nn.Module, x: Tensor) -> Tensor:
    if name != "faster_rcnn_r50":
        return torch.stack([part.square().mean() for part in outputs(name, model, x)]).sum()
    box = {"boxes": torch.tensor([[8.0, 8.0, 40.0, 40.0]]), "labels": torch.tensor([1])}
    return torch.stack(list(model(list(x), [box for _ in x]).values())).sum()


def outputs(name: str, model: nn.Module, x: Tensor) -> list[Tensor]:
    if name == "faster_rcnn_r50":
        return list(model.backbone(x).values())  # type: ignore[operator,union-attr]
    y = model(x)
    if name == "segformer_b1":
        return [y.logits]
    return [y] if isinstance(y, Tensor) else [y.class_queries_logits, y.masks_queries_logits]


SHAPES = {
    "segnet_vgg16": (2, 37, 32, 64),
    "segformer_b1": (2, 150, 16, 24),
    "maskformer_swin_b": (2, 5, 16, 24),
    "mask2former_swin_b": (2, 5, 16, 24),
    "faster_rcnn_r50": (2, 256, 1, 2),
    "bts_r50": (2, 1, 64, 96),
    "a2u_matting_r34": (2, 1, 64, 96),
}


@pytest.mark.parametrize("name", MODELS)
def test_forward_and_backward_with_sapa_at_every_step(name: str) -> None:
    model = build(name, "sapa_g", **tiny(name))
    ups = [part for part in model.modules() if isinstance(part, Upsampler)]
    assert [(up.channels, up.guide_channels) for up in ups] == list(MODELS[name].stages)
    x = image(name, size=(32, 64) if name == "segnet_vgg16" else (64, 96))
    assert outputs(name, model, x)[-1].shape == SHAPES[name]
    loss(name, model, x).backward()
    for up in ups:
        for key, parameter in up.named_parameters():
            assert parameter.grad is not None, key
            assert parameter.grad.isfinite().all()
        assert up.qy.weight.grad.abs().max() > 0  # type: ignore[union-attr]


@pytest.mark.parametrize("name", ["segnet_vgg16", "bts_r50", "a2u_matting_r34"])
@pytest.mark.parametrize("upsampler", [None, "sapa_b", "carafe"])
def test_any_size(name: str, upsampler: str | None) -> None:
    model = build(name, upsampler).eval()
    with torch.no_grad():
        assert model(image(name, 1, (37, 43))).shape[2:] == (37, 43)


@pytest.mark.parametrize("name", MODELS)
def test_upsamplers_start_as_they_do_elsewhere(name: str) -> None:
    """The libraries start all convolutions of a model in one way, which is not that of CARAFE."""
    model = build(name, "carafe", **tiny(name))
    encoders = [part.content_encoder for part in model.modules() if isinstance(part, sapa.CARAFE)]
    assert len(encoders) == len(MODELS[name].stages)
    for conv in encoders:
        assert 0.0009 < float(conv.weight.detach().std()) < 0.0011


# --- wiring -----------------------------------------------------------------------------------------------------------


class Plain(sapa.Nearest):
    """Takes the way of every upsampler of this library, and computes what the model itself does."""


class Smooth(sapa.Bilinear):
    """As `Plain`, for the models whose own step is bilinear."""


@pytest.mark.parametrize(
    ("name", "upsampler"),
    [("maskformer_swin_b", Plain), ("mask2former_swin_b", Smooth), ("faster_rcnn_r50", Plain)],
)
def test_equals_the_library_when_the_upsampler_does(name: str, upsampler: type[Upsampler]) -> None:
    theirs, ours = build(name, **tiny(name)).eval(), build(name, upsampler, **tiny(name)).eval()
    assert not [part for part in theirs.modules() if isinstance(part, Upsampler)]
    assert ours.state_dict().keys() == theirs.state_dict().keys()
    ours.load_state_dict(theirs.state_dict())
    x = image(name)
    with torch.no_grad():
        for mine, other in zip(outputs(name, ours, x), outputs(name, theirs, x), strict=True):
            torch.testing.assert_close(mine, other, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["segformer_b1", "maskformer_swin_b", "mask2former_swin_b", "faster_rcnn_r50"])
def test_published_weights_load_and_only_upsamplers_are_new(name: str) -> None:
    theirs, ours = build(name, **tiny(name)), build(name, "sapa_b", **tiny(name))
    missing, unexpected = ours.load_state_dict(theirs.state_dict(), strict=False)
    assert unexpected == []
    assert missing
    assert all(".upsampler" in key for key in missing)


def test_segformer_lifts_each_map_with_the_projected_maps_above_it() -> None:
    model: Any = build("segformer_b1", "sapa_b", **tiny("segformer_b1")).eval()
    head, seen, x = model.decode_head, [], image("segformer_b1")
    for up in head.upsamplers:
        up.register_forward_hook(lambda _, inputs, output: seen.append((*inputs, output)))
    with torch.no_grad():
        hidden = model.segformer(x, output_hidden_states=True).hidden_states[-4:]
        projected = [
            F.conv2d(h, layer.proj.weight[..., None, None], layer.proj.bias)
            for h, layer in zip(hidden, head.linear_projections, strict=True)
        ]
        logits = model(x).logits
        c1, c2, c3, c4 = projected
        for i, guide in enumerate((c3, c2, c1, c2, c1, c1)):
            torch.testing.assert_close(seen[i][1], guide)
        starts = {0: c4, 3: c3, 5: c2}
        for i, (low, _, _) in enumerate(seen):
            torch.testing.assert_close(low, starts[i] if i in starts else seen[i - 1][2])
        fused = head.linear_fuse(torch.cat([seen[2][2], seen[4][2], seen[5][2], c1], 1))
        torch.testing.assert_close(logits, head.classifier(F.relu(head.batch_norm(fused))))


def test_segformer_itself_is_left_as_it_is() -> None:
    build("segformer_b1", "sapa_b", **tiny("segformer_b1"))
    model: Any = build("segformer_b1", **tiny("segformer_b1"))
    assert type(model.decode_head).__module__.startswith("transformers.")
    assert not hasattr(model.decode_head, "upsamplers")


def test_segnet_puts_values_back_where_they_were_pooled_from() -> None:
    model: Any = build("segnet_vgg16").eval()
    x = image("segnet_vgg16", 1, (64, 64))
    places, sizes, y = [], [], x
    with torch.no_grad():
        for stage in model.encoder:
            y = stage(y)
            sizes.append(y.shape[2:])
            y, indices = F.max_pool2d(y, 2, return_indices=True)
            places.append(indices)
        for stage in model.decoder:
            zeros = y.new_zeros(1, y.shape[1], math.prod(sizes[-1]))
            y = stage(zeros.scatter(2, places.pop().flatten(2), y.flatten(2)).view(1, -1, *sizes.pop()))
        torch.testing.assert_close(model(x), y)


def test_bts_planes_are_the_depths_of_rays_that_meet_them() -> None:
    from sapa.models.bts import Planes

    planes = Planes((8, 8), 4).double()
    x = torch.randn(1, 8, 2, 3).double()
    with torch.no_grad():
        depth = planes(x, (7, 11))
        polar, azimuth, distance = torch.sigmoid(planes.reduce(x))[0]
    assert depth.shape == (1, 1, 7, 11)
    for row, column in ((0, 0), (6, 10), (3, 5), (4, 4)):
        i, j = row // 4, column // 4
        theta, phi = float(polar[i, j]) * math.pi / 3, float(azimuth[i, j]) * 2 * math.pi
        normal = math.sin(theta) * math.cos(phi), math.sin(theta) * math.sin(phi), math.cos(theta)
        # the middle of a cell of 4 lies at 1.5; a cell is one wide
        ray = (column % 4 - 1.5) / 4, (row % 4 - 1.5) / 4, 1.0
        along = sum(a * b for a, b in zip(normal, ray, strict=True))
        assert float(depth[0, 0, row, column]) == pytest.approx(float(distance[i, j]) / along)


def test_bts_guides_are_the_maps_of_resnet() -> None:
    from torchvision.models.feature_extraction import create_feature_extractor

    model: Any = build("bts_r50", "sapa_b").eval()
    resnet = torchvision.models.resnet50(weights=None).eval()
    missing, unexpected = resnet.load_state_dict(model.encoder.state_dict(), strict=False)
    assert (missing, unexpected) == (["fc.weight", "fc.bias"], [])
    seen: list[tuple[Tensor, Tensor]] = []
    for up in model.upsamplers:
        up.register_forward_pre_hook(lambda _, inputs: seen.append(inputs))
    x = image("bts_r50")
    with torch.no_grad():
        model(x)
        maps = create_feature_extractor(resnet, ["layer3", "layer2", "layer1", "relu", "layer4"])(x)
    torch.testing.assert_close(seen[0][0], maps["layer4"])
    for (_, guide), name in zip(seen, ("layer3", "layer2", "layer1", "relu"), strict=True):
        torch.testing.assert_close(guide, maps[name])


def test_bts_stays_within_its_largest_depth() -> None:
    with torch.no_grad():
        depth = build("bts_r50", max_depth=2.5).eval()(image("bts_r50"))
    assert 0 < float(depth.min()) <= float(depth.max()) < 2.5


def test_matting_guides_are_the_maps_before_each_pooling() -> None:
    model: Any = build("a2u_matting_r34", "max_unpool").eval()
    guides: list[Tensor] = []
    for up in model.upsamplers:
        up.register_forward_pre_hook(lambda _, inputs: guides.append(inputs[1]))
    with torch.no_grad():
        x = image("a2u_matting_r34", 1, (64, 64))
        model(x)
        full = F.leaky_relu(model.bn1(model.conv1(x)), 0.01)
        half = F.max_pool2d(full, 2)
        quarter = model.layer1(F.max_pool2d(half, 2))
        block = model.layer2[0]
        torch.testing.assert_close(guides[3], full)
        torch.testing.assert_close(guides[2], half)
        torch.testing.assert_close(guides[1], F.leaky_relu(block.bn1(block.conv1(quarter)), 0.01))
        assert guides[0].shape == (1, 256, 8, 8)


def test_class_maps_are_the_masks_of_each_class() -> None:
    from sapa.models.maskformer import class_maps

    class Output:
        class_queries_logits = torch.tensor([[[9.0, -9.0, -9.0], [-9.0, 9.0, -9.0], [-9.0, -9.0, 9.0]]])
        masks_queries_logits = torch.stack([torch.full((2, 2), v) for v in (1.0, -2.0, 30.0)])[None]

    maps = class_maps(Output, (4, 6))
    assert maps.shape == (1, 2, 4, 6)
    expected = torch.sigmoid(torch.tensor([1.0, -2.0]))[:, None, None].expand(2, 4, 6)
    torch.testing.assert_close(maps[0], expected, rtol=1e-4, atol=1e-4)


# --- weights ----------------------------------------------------------------------------------------------------------


def from_folder(monkeypatch: pytest.MonkeyPatch, name: str, folder: Path) -> None:
    monkeypatch.setitem(MODELS, name, MODELS[name]._replace(weights=str(folder)))


@pytest.mark.parametrize("name", ["maskformer_swin_b", "mask2former_swin_b"])
def test_pretrained_swin(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from safetensors.torch import save_file
    from transformers.models.maskformer.modeling_maskformer_swin import MaskFormerSwinBackbone

    # a folder with the names that Swin has on the hub, as those who wrote transformers read it
    config = swin()
    state = MaskFormerSwinBackbone(transformers.MaskFormerSwinConfig(**config.to_dict())).state_dict()
    state = {key.replace("model.", "swin.", 1): value for key, value in state.items() if "hidden_states" not in key}
    save_file(state, tmp_path / "model.safetensors", {"format": "pt"})
    config.save_pretrained(tmp_path)
    theirs = transformers.SwinModel.from_pretrained(tmp_path, add_pooling_layer=False)
    assert torch.equal(theirs.layernorm.weight, state["swin.layernorm.weight"])
    from_folder(monkeypatch, name, tmp_path)
    model: Any = build(name, "sapa_b", pretrained=True, **tiny(name)).eval()
    x = image(name, 1, (128, 128))
    with torch.no_grad():
        ours = model.model.pixel_level_module.encoder(x).feature_maps[-1]
        last = theirs.eval()(x).last_hidden_state  # [B, hw, C]
    # both end with a norm, of which that of the backbone is new
    torch.testing.assert_close(ours.flatten(2).transpose(1, 2), last, rtol=1e-4, atol=1e-4)


def test_pretrained_segformer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = transformers.SegformerConfig(**tiny("segformer_b1"))
    theirs = transformers.SegformerForImageClassification(config)
    theirs.save_pretrained(tmp_path)
    from_folder(monkeypatch, "segformer_b1", tmp_path)
    model: Any = build("segformer_b1", "sapa_b", pretrained=True, num_classes=5, **tiny("segformer_b1"))
    for key, value in theirs.segformer.state_dict().items():
        assert torch.equal(model.segformer.state_dict()[key], value), key
    assert model.decode_head.classifier.out_channels == 5
    assert float(model.decode_head.upsamplers[0].q.weight.detach().std()) > 0


@pytest.mark.parametrize("name", ["segnet_vgg16", "faster_rcnn_r50", "bts_r50", "a2u_matting_r34"])
def test_pretrained_torchvision(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if name == "segnet_vgg16":
        vgg = torchvision.models.vgg
        theirs = nn.ModuleDict({"features": vgg.make_layers(vgg.cfgs["D"], batch_norm=True)}).state_dict()
    else:
        net = "resnet34" if name == "a2u_matting_r34" else "resnet50"
        theirs = getattr(torchvision.models, net)(weights=None).state_dict()
    monkeypatch.setattr("torchvision.models._api.load_state_dict_from_url", lambda *_, **__: theirs)
    model: Any = build(name, "sapa_b", pretrained=True)
    mine = model.state_dict()
    if name == "segnet_vgg16":
        encoder = [value for key, value in mine.items() if key.startswith("encoder.")]
        assert all(torch.equal(value, other) for value, other in zip(encoder, theirs.values(), strict=True))
    elif name == "faster_rcnn_r50":
        assert torch.equal(mine["backbone.body.layer4.2.conv3.weight"], theirs["layer4.2.conv3.weight"])
        frozen = {key for key, p in model.named_parameters() if not p.requires_grad}
        assert {key.split(".")[2] for key in frozen} == {"conv1", "bn1", "layer1"}
        norm = model.train().backbone.body.layer4[0].bn1
        assert not norm.training
        assert norm.weight.requires_grad
    elif name == "bts_r50":
        assert torch.equal(mine["encoder.layer4.2.conv3.weight"], theirs["layer4.2.conv3.weight"])
    else:
        assert torch.equal(mine["conv1.weight"][:, :3], theirs["conv1.weight"])
        assert not mine["conv1.weight"][:, 3].any()
        encoder = [key for key in mine if key.startswith(("layer", "bn1"))]
        assert encoder
        assert all(torch.equal(mine[key], theirs[key]) for key in encoder)


def test_weights_that_cannot_be_fetched_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def offline(*_: Any, **__: Any) -> None:
        raise URLError("no route to host")

    monkeypatch.setattr("torchvision.models._api.load_state_dict_from_url", offline)
    with pytest.raises(OSError, match=r"bts_r50: the weights ResNet50_Weights.IMAGENET1K_V1 are not in"):
        build("bts_r50", pretrained=True)
    from_folder(monkeypatch, "segformer_b1", tmp_path / "nowhere")
    with pytest.raises(
        OSError, match=r"(?s)segformer_b1: the weights .*nowhere are not in the cache.*pretrained=False"
    ):
        build("segformer_b1", pretrained=True)


# --- what does not fit ------------------------------------------------------------------------------------------------


def test_an_upsampler_that_does_not_fit_says_why_and_what_does() -> None:
    with pytest.raises(ValueError, match="does not fit") as error:
        build("bts_r50", "sapa_i")
    assert str(error.value) == (
        "bts_r50: sapa_i does not fit. SAPA: similarity='inner' compares the channels of x and guide one by one, but x "
        "has 2048 and guide 1024; use 'bilinear' or 'gated'. What fits: "
        f"{', '.join(name for name in sapa.UPSAMPLERS if name not in ('max_unpool', 'indexnet_o2o', 'sapa_i'))}."
    )
    with pytest.raises(ValueError, match="does not fit") as error:
        build("segformer_b1", "max_unpool")
    assert str(error.value).startswith(
        "segformer_b1: max_unpool does not fit. It undoes a max pooling of the guide, and the encoder of this model "
        "does not make one. What fits: nearest, bilinear, "
    )
    with pytest.raises(ValueError, match=r"faster_rcnn_r50: SAPA does not fit. SAPA: kernel_size must be odd"):
        build("faster_rcnn_r50", partial(sapa.SAPA, kernel_size=4))


@pytest.mark.parametrize("name", PAPER)
def test_steps_are_those_of_the_paper(name: str) -> None:
    assert MODELS[name].stages == tuple((decoder, encoder) for encoder, decoder, _ in PAPER[name].stages)


@pytest.mark.parametrize("name", MODELS)
def test_those_of_the_paper_fit(name: str) -> None:
    names = fitting(name)
    printed = PAPER[name].printed if name in PAPER else ()
    assert {paper_cells.NAMES[module] for module in printed} <= set(names)
    assert ("max_unpool" in names) == MODELS[name].is_pooled


@pytest.mark.parametrize("upsampler", fitting("a2u_matting_r34"))
def test_everything_that_fits_runs(upsampler: str) -> None:
    model = build("a2u_matting_r34", upsampler).eval()
    assert len([part for part in model.modules() if isinstance(part, Upsampler)]) == 4
    with torch.no_grad():
        alpha = model(image("a2u_matting_r34", 1, (32, 48)))
    assert alpha.shape == (1, 1, 32, 48)
    assert alpha.isfinite().all()


def test_options_of_an_upsampler() -> None:
    model: Any = build("segformer_b1", partial(sapa.SAPA, kernel_size=3, embed_dim=16), **tiny("segformer_b1"))
    assert {(up.kernel_size, up.q.weight.shape[0]) for up in model.decode_head.upsamplers} == {((3, 3), 16)}


def test_unknown_names() -> None:
    with pytest.raises(
        KeyError, match=r"no model 'segformer'. Did you mean 'segformer_b1'\? Available: segnet_vgg16, "
    ):
        build("segformer")
    with pytest.raises(KeyError, match="no model 'resnet'"):
        fitting("resnet")
    with pytest.raises(KeyError, match=r"no upsampler 'sappa_b'. Did you mean 'sapa_b'\?"):
        build("segnet_vgg16", "sappa_b")


def test_libraries_are_imported_when_a_model_is_built() -> None:
    code = "import sys, sapa; sapa.models.MODELS; print({'transformers', 'torchvision'} & set(sys.modules))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "set()\n"


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "sapa.models.segformer", raising=False)
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ModuleNotFoundError, match=r"segformer_b1 needs transformers: pip install 'sapa\[models\]'"):
        build("segformer_b1")
