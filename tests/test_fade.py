"""FADE and FADE-Lite: their limits, both releases' names, the gate, and the sizes the releases do not take."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import sapa
from sapa.geometry import Size, nearest
from sapa.nn import FADE
from sapa.nn.fade import H2L_NAMES

FORMS = [{}, {"is_lite": True}]
CLOSED, OPEN = -1000.0, 1000.0


def maps(C: int = 8, Cg: int = 8, size: Size = (10, 12)) -> tuple[Tensor, Tensor]:
    return torch.randn(2, C, 5, 6).double(), torch.randn(2, Cg, *size).double()


def with_gate(logit: float, **options: Any) -> FADE:
    up = FADE(8, **options).double()
    assert up.gate_generator is not None
    torch.nn.init.zeros_(up.gate_generator.conv.weight)
    torch.nn.init.constant_(up.gate_generator.conv.get_parameter("bias"), logit)
    return up


@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("size", [(10, 12), (11, 13), (20, 24)], ids=str)
def test_without_scores_and_with_a_closed_gate_it_is_a_box_filter(size: Size, form: dict) -> None:
    x, guide = maps(size=size)
    up = with_gate(CLOSED, **form)
    torch.nn.init.zeros_(up.ker_generator.content_encoder.weight)
    torch.testing.assert_close(up(x, guide), nearest(F.avg_pool2d(x, 5, 1, 2), size))


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_an_open_gate_gives_the_guide(form: dict) -> None:
    x, guide = maps()
    assert torch.equal(with_gate(OPEN, **form)(x, guide), guide)


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_without_a_gate_it_is_the_weighted_sum_alone(form: dict) -> None:
    x, guide = maps(8, 6)
    up = FADE(8, 6, gate=False, **form).double()
    assert {key.split(".")[0] for key in up.state_dict()} == {"ker_generator"}
    assert torch.equal(up(x, guide), sapa.assemble(x, up.kernels(x, guide)))
    twin = with_gate(CLOSED, guide_channels=6, **form)
    twin.ker_generator.load_state_dict(up.ker_generator.state_dict())
    torch.testing.assert_close(twin(x, guide), up(x, guide))


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_gating_before_enlarging_is_equal(form: dict) -> None:
    x, guide = maps()
    up = FADE(8, **form).double()
    assert up.gate_generator is not None
    gate = torch.sigmoid(F.interpolate(up.gate_generator.conv(x), scale_factor=2))
    expected = gate * guide + (1 - gate) * sapa.assemble(x, up.kernels(x, guide))
    torch.testing.assert_close(up(x, guide), expected)


def test_the_bias_of_the_encoder_enters_twice() -> None:
    x, guide = maps()
    up = FADE(8, kernel_size=3).double()
    bias = torch.randn(9).double()
    torch.nn.init.zeros_(up.ker_generator.content_encoder.weight)
    up.ker_generator.content_encoder.bias = torch.nn.Parameter(bias)
    expected = (2 * bias).softmax(0)[:, None, None].expand(2, 9, 10, 12)
    torch.testing.assert_close(up.kernels(x, guide), expected)


def test_scores_see_three_points_of_either_map() -> None:
    x, guide = torch.zeros(1, 8, 9, 9).double(), torch.zeros(1, 8, 18, 18).double()
    up = FADE(8).double()
    flat = up.kernels(x, guide)

    def rows_changed(**changed: Tensor) -> Tensor:
        w = up.kernels(**({"x": x, "guide": guide} | changed))
        # what the bias of the compressed guide brings ends at the frame, in both
        return (w - flat).abs().sum((0, 1, 3)).nonzero().flatten()

    of_x, of_guide = x.clone(), guide.clone()
    of_x[..., 4, 4], of_guide[..., 8, 8] = 1, 1
    assert rows_changed(x=of_x).tolist() == [6, 7, 8, 9, 10, 11]
    assert rows_changed(guide=of_guide).tolist() == [7, 8, 9]


@pytest.mark.parametrize("prefix", ["", "decoder.up."])
def test_names_of_the_h2l_release_load(prefix: str) -> None:
    x, guide = maps()
    up, twin = FADE(8).double(), FADE(8).double()
    state = {}
    for key, value in up.state_dict().items():
        for old, new in H2L_NAMES.items():
            key = key.replace(new, old)
        state[prefix + key] = value
    assert sorted(key.removeprefix(prefix) for key in state) == [
        "gate_generator.conv.bias",
        "gate_generator.conv.weight",
        "kernel_generator.conv1_de.weight",
        "kernel_generator.conv1_en.bias",
        "kernel_generator.conv1_en.weight",
        "kernel_generator.conv2_bias",
        "kernel_generator.conv2_kernels",
    ]
    model = torch.nn.ModuleDict({"decoder": torch.nn.ModuleDict({"up": twin})}) if prefix else twin
    model.load_state_dict(state)
    assert torch.equal(twin(x, guide), up(x, guide))


def test_what_passes_the_gate_is_given_the_channels_of_x() -> None:
    x, guide = maps(8, 5)
    up = with_gate(OPEN, guide_channels=5)
    assert up.aligner(guide).shape == (2, 8, 10, 12)
    assert torch.equal(up(x, guide), up.aligner(guide))
    assert not any("aligner" in key for key in FADE(8).state_dict())


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_pairs_of_kernel_sizes(form: dict) -> None:
    x, guide = maps()
    up = FADE(8, kernel_size=(3, 5), **form).double()
    w = up.kernels(x, guide)
    assert w.shape == (2, 15, 10, 12)
    torch.testing.assert_close(w.sum(1), torch.ones(2, 10, 12).double())
    assert up(x, guide).shape == (2, 8, 10, 12)


def test_first_values() -> None:
    up = FADE(256)
    fans = {"compressor_en": 256 + 64, "compressor_de": 256 + 64, "content_encoder": (64 + 25) * 9, "conv": 256 + 1}
    for name, parameter in up.named_parameters():
        layer, kind = name.split(".")[-2:]
        if kind == "bias":
            assert not parameter.any()
        else:
            limit = (6 / fans[layer]) ** 0.5
            assert 0.9 * limit < float(parameter.detach().abs().max()) <= limit


def test_parameter_counts() -> None:
    def count(*channels: int, **options: Any) -> int:
        return sum(p.numel() for C in channels for p in FADE(C, **options).parameters())

    assert count(256, 128, 64, 64) == 124_008  # matting
    assert count(256, 128, 64, 64, is_lite=True) == 27_216
    assert 6 * count(256) == 285_084  # SegFormer
    assert 6 * count(256, is_lite=True) == 79_992


def test_the_lite_form_has_no_choice_of_embedding() -> None:
    assert FADE(8, is_lite=True, embed_dim=25).ker_generator.compressor_en.out_channels == 25
    assert FADE(8, embed_dim=7).ker_generator.compressor_de.out_channels == 7
    with pytest.raises(ValueError, match=r"lite form embeds in K\*K = 9 channels, got embed_dim=64; leave it out"):
        FADE(8, is_lite=True, kernel_size=3, embed_dim=64)
    with pytest.raises(ValueError, match="embed_dim must be a positive integer, got 0"):
        FADE(8, embed_dim=0)
