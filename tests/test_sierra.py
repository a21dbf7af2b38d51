"""SIERRA: its formula point by point, what it keeps, and its table of places."""

from itertools import product
from math import exp

import pytest
import torch
from torch import Tensor

import sapa
from sapa.geometry import Size
from sapa.nn import SIERRA


def point_by_point(x: Tensor, scale: Size, K: int) -> Tensor:
    """[C, h, w] to [C, S_y*h, S_x*w]."""
    (C, h, w), (Sy, Sx) = x.shape, scale
    y = torch.zeros(C, Sy * h, Sx * w, dtype=x.dtype)
    means = x.mean(0)
    for i, j, a, b in product(range(h), range(w), range(Sy), range(Sx)):
        total = 0.0
        for u, v in product(range(-(K // 2), K // 2 + 1), repeat=2):
            is_inside = 0 <= i + u < h and 0 <= j + v < w
            difference = (float(means[i + u, j + v]) if is_inside else 0.0) - float(means[i, j])
            distance = ((a + 0.5) / Sy - 0.5 - u) ** 2 + ((b + 0.5) / Sx - 0.5 - v) ** 2
            weight = exp(1 / (difference**2 + 0.2) / (distance + 0.2))
            total += weight
            if is_inside:
                y[:, Sy * i + a, Sx * j + b] += weight * x[:, i + u, j + v]
        y[:, Sy * i + a, Sx * j + b] /= total
    return y


@pytest.mark.parametrize("scale", [1, 2, 3, (2, 1), (4, 3)], ids=str)
@pytest.mark.parametrize("K", [1, 3, 5])
def test_formula(scale: int | Size, K: int) -> None:
    x = torch.randn(1, 3, 3, 4).double()
    up = SIERRA(3, scale=scale, kernel_size=K).double()
    up.reset_parameters()  # in float64
    torch.testing.assert_close(up(x)[0], point_by_point(x[0], up.scale, K))


def test_there_is_nothing_to_learn_and_the_table_of_the_release_loads() -> None:
    up = SIERRA(8, scale=3)
    assert list(up.parameters()) == []
    assert {name: tuple(value.shape) for name, value in up.state_dict().items()} == {"kernel": (9, 9)}
    x = torch.randn(1, 8, 4, 5)
    up.load_state_dict({"kernel": torch.zeros(9, 9)})
    inside = up(x)[..., 3:-3, 3:-3]
    flat = torch.nn.functional.avg_pool2d(x, 3, 1).repeat_interleave(3, 2).repeat_interleave(3, 3)
    torch.testing.assert_close(inside, flat)


def test_kernels_are_those_that_forward_applies() -> None:
    x = torch.randn(2, 8, 4, 5)
    up = SIERRA(8, kernel_size=(3, 5))
    w = up.kernels(x)
    torch.testing.assert_close(w.sum(1), torch.ones(2, 8, 10))
    torch.testing.assert_close(sapa.assemble(x, w, kernel_size=(3, 5)), up(x))


def test_channels_are_treated_alike() -> None:
    x = torch.randn(1, 8, 4, 5).double()
    order = torch.randperm(8)
    up = SIERRA(8).double()
    torch.testing.assert_close(up(x[:, order]), up(x)[:, order])


def test_mirrored_maps_give_mirrored_results() -> None:
    x = torch.randn(1, 8, 4, 5).double()
    up = SIERRA(8, scale=(2, 3)).double()
    torch.testing.assert_close(up(x.flip(2)), up(x).flip(2))
    torch.testing.assert_close(up(x.flip(3)), up(x).flip(3))


def test_an_edge_stays_sharper_than_in_bilinear_interpolation() -> None:
    x = torch.zeros(1, 8, 6, 6)
    x[..., 3:] = 10
    blur = [float((up(x)[..., 4:8, 4:8] - 5).abs().min()) for up in (SIERRA(8), sapa.build("bilinear", 8))]
    assert blur[0] > blur[1]


def test_huge_values_stay_finite() -> None:
    x = torch.randn(1, 8, 4, 5, requires_grad=True)
    y = SIERRA(8)(1e15 * x)
    y.sum().backward()
    assert y.isfinite().all()
    assert x.grad is not None
    assert x.grad.isfinite().all()


def test_a_module_made_on_meta_is_filled_by_reset_parameters() -> None:
    with torch.device("meta"):
        up = SIERRA(8)
    up.to_empty(device="cpu").reset_parameters()
    assert torch.equal(up.kernel, SIERRA(8).kernel)


def test_error() -> None:
    with pytest.raises(ValueError, match="SIERRA: kernel_size must be odd and positive"):
        SIERRA(8, kernel_size=2)
