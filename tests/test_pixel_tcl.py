"""PixelTCL against a slow transcript of its definition, in both forms and at every kernel size and scale."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import sapa
from sapa.nn import PixelTCL


def convolve(x: Tensor, weight: Tensor) -> Tensor:
    """What TensorFlow calls SAME: the odd zero goes to the bottom and to the right."""
    Kh, Kw, _, D = weight.shape
    h, w = x.shape[2:]
    y = x.new_zeros(x.shape[0], D, h, w)
    for a in range(Kh):
        for b in range(Kw):
            i, j = a - (Kh - 1) // 2, b - (Kw - 1) // 2
            shifted = F.pad(x, (Kw, Kw, Kh, Kh))[..., Kh + i : Kh + i + h, Kw + j : Kw + j + w]
            y = y + torch.einsum("bchw,cd->bdhw", shifted, weight[a, b])
    return y


def official(up: PixelTCL, x: Tensor) -> Tensor:
    weights = list(up.parameters())
    y = x.new_zeros(x.shape[0], weights[0].shape[-1], 2 * x.shape[2], 2 * x.shape[3])
    if up.form == "dcl":
        y[..., ::2, ::2] = first = convolve(x, weights[0])
        y[..., 1::2, 1::2] = convolve(first, weights[1])
        Kh, Kw = weights[2].shape[:2]
        masked = weights[2].clone()
        for n in range(0, Kh * Kw, 2):  # column by column
            masked[n % Kh, n // Kh] = 0
        return F.relu(y + convolve(y, masked))
    y[..., ::2, ::2] = first = convolve(x, weights[0])
    y[..., 1::2, 1::2] = second = convolve(torch.cat([x, first], 1), weights[1])
    third = convolve(torch.cat([x, first, second], 1), weights[2])
    y[..., 1::2, ::2], y[..., ::2, 1::2] = third.chunk(2, 1)
    return F.relu(y)


@pytest.mark.parametrize("form", ["dcl", "idcl"])
@pytest.mark.parametrize("kernel_size", [1, 2, 3, 4, 5, (3, 5), (2, 3)], ids=str)
@torch.no_grad()
def test_definition(form: str, kernel_size: Any) -> None:
    x = torch.randn(2, 4, 3, 5).double()
    up = PixelTCL(4, form=form, kernel_size=kernel_size, out_channels=3).double()
    torch.testing.assert_close(up(x), official(up, x))


def test_names_shapes_and_counts() -> None:
    found = {name: list(p.shape) for name, p in PixelTCL(4, out_channels=5).named_parameters()}
    assert found == {"conv0/weights": [3, 3, 4, 5], "conv1/weights": [3, 3, 5, 5], "conv2/weights": [3, 3, 5, 5]}
    found = {name: list(p.shape) for name, p in PixelTCL(4, form="idcl", out_channels=5).named_parameters()}
    assert found == {"conv1/weights": [3, 3, 4, 5], "conv2/weights": [3, 3, 9, 5], "conv3/weights": [3, 3, 14, 10]}
    assert sum(p.numel() for p in PixelTCL(256).parameters()) == 3 * 9 * 256**2


@pytest.mark.parametrize("form", ["dcl", "idcl"])
@pytest.mark.parametrize("scale", [1, 3, 4, (2, 1), (2, 3)], ids=str)
def test_other_scales_fill_every_point(form: str, scale: Any) -> None:
    up = PixelTCL(8, scale=scale, form=form, activation=None)
    x = torch.randn(1, 8, 4, 5)
    y = up(x)
    assert y.shape == (1, 8, 4 * up.scale[0], 5 * up.scale[1])
    Sy, Sx = up.scale
    assert y[..., Sy:-Sy, Sx:-Sx].all(), "away from the border, where a gap may have no neighbours"
    y.square().sum().backward()
    assert all(p.grad is not None and p.grad.any() for p in up.parameters())


@torch.no_grad()
def test_the_last_convolution_only_fills_gaps() -> None:
    x = torch.randn(1, 8, 4, 5)
    for scale in (2, 3):
        up = PixelTCL(8, scale=scale, activation=None)
        first = F.conv2d(x, up.get_parameter("conv0/weights").permute(3, 2, 0, 1), padding=1)
        torch.testing.assert_close(up(x)[..., ::scale, ::scale], first)
        torch.nn.init.zeros_(up.get_parameter(up.names[-1]))
        y = up(x)
        gaps = torch.ones(scale, scale).fill_diagonal_(0).bool().repeat(4, 5)
        assert not y[..., gaps].any()


def test_activation_and_first_values() -> None:
    x = torch.randn(2, 8, 4, 5)
    linear = PixelTCL(8, activation=None)
    for activation in (F.relu, torch.tanh):
        up = PixelTCL(8, activation=activation)
        up.load_state_dict(linear.state_dict())
        assert torch.equal(up(x), activation(linear(x)))
    up = PixelTCL(64)
    first, last = (up.get_parameter(f"conv{i}/weights").detach() for i in (0, 2))
    bound = (6 / (9 * 64 + 9 * 64)) ** 0.5
    assert 0.99 * bound < first.abs().max() <= bound
    assert 1.9 < last.abs().max() <= 2
    assert abs(float(last.std()) - 0.88) < 0.01, "a normal deviation of 1, cut at 2"


def test_messages() -> None:
    with pytest.raises(ValueError, match=r"PixelTCL: no form 'icl'. Did you mean 'idcl'\? Available: dcl, idcl."):
        sapa.build("pixel_tcl", 8, form="icl")
    with pytest.raises(ValueError, match="PixelTCL: kernel_size must be a positive integer, or a pair of them, got 0"):
        sapa.build("pixel_tcl", 8, kernel_size=0)
