"""guided_upsample: exact where it can be, the same in strips, and careful with labels and with what is unknown."""

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import sapa
from sapa.guided.grid import Grid

BLOCKS = torch.tensor([[0, 0, 1, 1, 1, 2], [0, 0, 1, 1, 2, 2], [0, 0, 0, 2, 2, 2], [3, 3, 0, 0, 2, 2]])
PALETTE = torch.tensor([[0.9, 0.1, 0.1], [0.1, 0.8, 0.2], [0.2, 0.2, 0.9], [0.9, 0.9, 0.8]])


def regions(scale: int) -> Tensor:
    """A map of four regions, whose edges are edges of cells: [1, 1, 12, 18] times the scale."""
    return BLOCKS.repeat_interleave(3 * scale, 0).repeat_interleave(3 * scale, 1)[None, None]


def painted(classes: Tensor) -> Tensor:
    return PALETTE[classes[:, 0]].permute(0, 3, 1, 2)


def scene(h: int, w: int, H: int, W: int, C: int = 1, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(1, C, h, w, generator=generator), torch.rand(1, 3, H, W, generator=generator)


@pytest.mark.parametrize("scale", [2, 3, 8, 16, 32])
def test_regions_of_one_value_and_one_colour_come_out_exactly(scale: int) -> None:
    full = regions(scale)
    values = torch.tensor([1.0, 5.0, -2.0, 7.5])[full]
    x = F.avg_pool2d(values, scale)
    y = sapa.guided_upsample(x, painted(full))
    torch.testing.assert_close(y, values, rtol=0, atol=1e-5)
    blurred = F.interpolate(x, y.shape[-2:], mode="bilinear")
    assert (blurred - values).abs().max() > 1


def test_odd_ratios_keep_regions_within_half_a_cell() -> None:
    full = regions(8)[..., :91, :137]
    values = torch.tensor([1.0, 5.0, -2.0, 7.5])[full]
    x = sapa.guided_upsample(values, painted(full), iterations=0)  # the same size: nothing to do
    torch.testing.assert_close(x, values, rtol=0, atol=1e-4)
    small = F.interpolate(values, (12, 17), mode="area")
    y = sapa.guided_upsample(small, painted(full))
    plain = F.interpolate(small, (91, 137), mode="bilinear")
    assert (y - values).abs().mean() < 0.5 * (plain - values).abs().mean()


def test_edges_of_colour_without_edges_of_the_map_do_not_show() -> None:
    rows, columns = torch.meshgrid(torch.linspace(0, 1, 96), torch.linspace(0, 1, 128), indexing="ij")
    ramp = (rows + 2 * columns)[None, None]
    stripes = (torch.arange(128) // 5 % 2).float().expand(1, 3, 96, 128)
    x = F.avg_pool2d(ramp, 8)
    y = sapa.guided_upsample(x, stripes)
    misled = sapa.JointBilateral(1, 3)(x, stripes)
    inner = (slice(None), slice(None), slice(24, -24), slice(24, -24))  # at the frame even bilinear leaves the ramp
    assert (misled - ramp)[inner].abs().max() > 0.03
    assert (y - ramp)[inner].abs().max() < 0.001


def test_the_means_of_the_cells_come_nearer_to_x() -> None:
    x, guide = scene(9, 12, 72, 96)
    far, near = ((F.avg_pool2d(sapa.guided_upsample(x, guide, iterations=n), 8) - x).square().mean() for n in (0, 3))
    assert near < 0.1 * far


def test_without_iterations_it_stays_within_the_window() -> None:
    x, guide = scene(9, 12, 72, 96)
    y = sapa.guided_upsample(x, guide, iterations=0)
    low, high = (F.interpolate(sign * F.max_pool2d(sign * x, 3, 1, 1), scale_factor=8) for sign in (-1, 1))
    assert bool(((y >= low - 1e-6) & (y <= high + 1e-6)).all())


def test_a_constant_map_stays_constant() -> None:
    _, guide = scene(6, 7, 50, 61)
    torch.testing.assert_close(
        sapa.guided_upsample(torch.full((1, 2, 6, 7), 3.0), guide), torch.full((1, 2, 50, 61), 3.0)
    )
    torch.testing.assert_close(sapa.guided_upsample(torch.zeros(1, 1, 6, 7), guide), torch.zeros(1, 1, 50, 61))
    flat = torch.full((1, 3, 50, 61), 0.3)
    assert sapa.guided_upsample(scene(6, 7, 1, 1)[0], flat).isfinite().all()


@settings(max_examples=40, deadline=None)
@given(
    h=st.integers(1, 9), w=st.integers(1, 9), up=st.floats(1, 9), across=st.floats(1, 9), C=st.integers(1, 3),
    memory=st.integers(1, 60_000), holes=st.booleans(), kernel_size=st.sampled_from([None, 3, 5]),
)  # fmt: skip
def test_strips_do_not_show(
    h: int, w: int, up: float, across: float, C: int, memory: int, holes: bool, kernel_size: int | None
) -> None:
    x, guide = scene(h, w, int(h * up), int(w * across), C)
    if holes:
        x[..., h // 2, w // 2 :] = math.nan
    options: dict[str, Any] = {"kernel_size": kernel_size, "iterations": 2}
    whole = sapa.guided_upsample(x, guide, **options)
    torch.testing.assert_close(
        sapa.guided_upsample(x, guide, memory=memory, **options),
        whole,
        rtol=0,
        atol=0,
        equal_nan=True,
    )


@pytest.mark.parametrize("size", [(1024, 1536), (1000, 1411)])
def test_strips_of_a_larger_picture_do_not_show(size: tuple[int, int]) -> None:
    x, guide = scene(64, 96, *size)
    guide = (255 * guide).to(torch.uint8)
    whole = sapa.guided_upsample(x, guide, memory=1 << 40)
    for memory in (1 << 20, 10 << 20):
        assert torch.equal(sapa.guided_upsample(x, guide, memory=memory), whole)
    classes = (8 * x).to(torch.uint8)
    whole = sapa.guided_upsample(classes, guide, labels=True, memory=1 << 40)
    assert torch.equal(sapa.guided_upsample(classes, guide, labels=True, memory=10 << 20), whole)


@pytest.mark.parametrize(("high", "low"), [(20, 5), (23, 5), (7, 7), (91, 12), (5, 4)])
def test_rows_of_a_strip_are_those_with_their_centres_in_it(high: int, low: int) -> None:
    grid = Grid((high, 1), (low, 1), torch.device("cpu"))
    centre = [math.floor((p + 0.5) * low / high) for p in range(high)]
    for rows in (1, 2, 3, low):
        for top, bottom in grid.strips(rows):
            expected = [p for p in range(high) if top <= centre[p] < bottom]
            assert list(range(high))[grid.rows((top, bottom))] == expected


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int64, torch.int32])
@pytest.mark.parametrize("size", [(96, 144), (91, 137)])
def test_labels_stay_labels(dtype: torch.dtype, size: tuple[int, int]) -> None:
    full = regions(8)
    classes = torch.tensor([0, 7, 3, 200])[full][..., : size[0], : size[1]]  # 7 and 3 have 4, 5 and 6 between them
    x = F.interpolate(classes.float(), (12, 18), mode="nearest-exact").to(dtype)
    y = sapa.guided_upsample(x, painted(full)[..., : size[0], : size[1]], labels=True)
    assert y.dtype == dtype
    assert set(y.unique().tolist()) <= {0, 3, 7, 200}
    plain = F.interpolate(x.float(), size, mode="nearest-exact")
    wrong, plainly_wrong = ((z != classes).float().mean() for z in (y, plain))
    assert wrong <= plainly_wrong
    if size == (96, 144):
        assert torch.equal(y, classes.to(dtype))


def test_a_label_that_means_unknown_is_left_out() -> None:
    full = regions(8)
    x = F.interpolate(full.float(), (12, 18), mode="nearest-exact").to(torch.uint8)
    x[..., 2:4, 4:6] = 255
    y = sapa.guided_upsample(x, painted(full), labels=True, invalid=255)
    assert torch.equal(y, full.to(torch.uint8))
    lost = sapa.guided_upsample(torch.full_like(x, 255), painted(full), labels=True, invalid=255)
    assert bool((lost == 255).all())


@pytest.mark.parametrize("unknown", [math.nan, 0.0, -1.0])
def test_what_is_unknown_stays_out(unknown: float) -> None:
    full = regions(8)
    values = torch.tensor([1.0, 5.0, 2.0, 7.5])[full]
    x = F.avg_pool2d(values, 8)
    x[..., 1, 3] = x[..., 7, 13:15] = unknown
    y = sapa.guided_upsample(x, painted(full), invalid=None if math.isnan(unknown) else unknown)
    torch.testing.assert_close(y, values, rtol=0, atol=1e-4)


def test_where_all_is_unknown_it_stays_unknown() -> None:
    x, guide = scene(12, 12, 96, 96)
    x[..., :6, :6] = math.nan
    y = sapa.guided_upsample(x, guide, kernel_size=3)
    is_lost = torch.zeros(1, 1, 96, 96, dtype=torch.bool)
    is_lost[..., :40, :40] = True  # windows of 3 around rows 0 to 4 see rows 0 to 5 alone
    assert torch.equal(y.isnan(), is_lost)
    zeros = sapa.guided_upsample(x.nan_to_num(0), guide, kernel_size=3, invalid=0)
    assert torch.equal(zeros == 0, is_lost)
    torch.testing.assert_close(zeros[~is_lost], y[~is_lost], rtol=0, atol=0)
    assert sapa.guided_upsample(torch.full_like(x, math.nan), guide).isnan().all()


def test_units_of_the_guide_do_not_matter() -> None:
    full = regions(8)
    values = torch.tensor([1.0, 5.0, -2.0, 7.5])[full] + 0.01 * torch.randn(full.shape)
    x, photo = F.avg_pool2d(values, 8), painted(full)
    expected = sapa.guided_upsample(x, photo)
    torch.testing.assert_close(sapa.guided_upsample(x, 1000 * photo), expected, rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(
        sapa.guided_upsample(x, (255 * photo).round().to(torch.uint8)), expected, rtol=0, atol=0.05
    )


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_dtypes_formats_and_samples_of_a_batch(dtype: torch.dtype) -> None:
    x, guide = torch.rand(3, 4, 8, 9).to(dtype), torch.rand(3, 3, 64, 72)
    y = sapa.guided_upsample(x.contiguous(memory_format=torch.channels_last), guide)
    assert y.dtype == dtype
    assert y.is_contiguous(memory_format=torch.channels_last)
    for i in range(3):
        alone = sapa.guided_upsample(x[i : i + 1], guide[i : i + 1])
        torch.testing.assert_close(y[i : i + 1], alone)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(sapa.guided_upsample(x, guide), sapa.guided_upsample(x, guide))


def test_sigma_is_in_the_units_of_the_guide() -> None:
    x, guide = scene(8, 9, 64, 72)
    photo = (255 * guide).round().to(torch.uint8)
    torch.testing.assert_close(
        sapa.guided_upsample(x, photo, sigma=25.5), sapa.guided_upsample(x, photo / 255, sigma=0.1), rtol=0, atol=1e-3
    )
    narrow, wide = (sapa.guided_upsample(x, guide, sigma=sigma) for sigma in (0.05, 5.0))
    assert (narrow - wide).abs().mean() > 0.01


@pytest.mark.parametrize("factor", [1e-30, 1e19, 1e30])
def test_units_of_the_map_do_not_matter(factor: float) -> None:
    x, guide = scene(8, 9, 64, 72)
    expected = sapa.guided_upsample(x, guide)
    torch.testing.assert_close(sapa.guided_upsample(factor * x, guide) / factor, expected, rtol=0, atol=1e-4)
    for faint in (1e-15, 1e-19, 1e-25):
        assert sapa.guided_upsample(x, faint * guide).isfinite().all()
    assert sapa.guided_upsample(x, guide, sigma=1e-20).isfinite().all()


def test_half_precision_knows_its_unknown_value_and_its_limits() -> None:
    _, guide = scene(8, 9, 64, 64)
    x = torch.full((1, 1, 8, 8), 0.1).half()
    x[:, :, 1:7] = 5
    torch.testing.assert_close(
        sapa.guided_upsample(x, guide, invalid=0.1), torch.full((1, 1, 64, 64), 5.0).half(), rtol=0, atol=0.01
    )
    large = 65000 * (torch.arange(64).view(1, 1, 8, 8) % 3 == 0).half()
    assert sapa.guided_upsample(large, guide, iterations=3).isfinite().all()


@pytest.mark.parametrize("dtype", [torch.uint16, torch.uint32, torch.bool, torch.int8])
def test_labels_of_any_integer_type(dtype: torch.dtype) -> None:
    classes = torch.randint(0, 2, (1, 1, 8, 9)).to(dtype)
    classes[..., :5, :] = 0
    y = sapa.guided_upsample(classes, scene(8, 9, 64, 72)[1], labels=True, invalid=0)
    assert y.dtype == dtype
    assert y.long()[..., :24, :].sum() == 0


def test_an_empty_batch() -> None:
    assert sapa.guided_upsample(torch.rand(0, 2, 8, 9), torch.rand(0, 3, 64, 72)).shape == (0, 2, 64, 72)


def test_size_other_than_the_guides() -> None:
    x, guide = scene(8, 9, 64, 72)
    assert sapa.guided_upsample(x, guide, (32, 45)).shape == (1, 1, 32, 45)
    small = F.interpolate(guide, (32, 45), mode="bilinear", antialias=True)
    torch.testing.assert_close(sapa.guided_upsample(x, guide, (32, 45)), sapa.guided_upsample(x, small))


def test_gradients_reach_the_map_and_the_guide() -> None:
    x, guide = scene(4, 5, 16, 20)
    x, guide = x.double().requires_grad_(), guide.double().requires_grad_()
    y = sapa.guided_upsample(x, guide, memory=1)
    assert torch.equal(y, sapa.guided_upsample(x, guide))
    dx, dguide = torch.autograd.grad(y.square().sum(), (x, guide))
    assert dx.abs().min() > 0
    assert dguide.abs().sum() > 0
    with sapa.use_backend("reference"):
        torch.testing.assert_close(sapa.guided_upsample(x, guide), y)


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"x": torch.rand(1, 1, 80, 80)}, ValueError, "H is smaller than h"),
        ({"x": torch.rand(2, 1, 8, 8)}, ValueError, "disagree on B"),
        ({"x": torch.rand(8, 8)}, ValueError, "must have the dimensions"),
        ({"x": torch.zeros(1, 1, 8, 8, dtype=torch.int32)}, ValueError, "labels=True if it holds classes"),
        ({"x": torch.rand(1, 1, 8, 8), "labels": True}, ValueError, "classes as one of uint8, int8"),
        ({"x": torch.zeros(1, 2, 8, 8, dtype=torch.int32), "labels": True}, ValueError, r"\[B, 1, h, w\]"),
        ({"guide": torch.zeros(1, 3, 64, 64, dtype=torch.int32)}, ValueError, "convert it to uint8 or float32"),
        ({"guide": torch.full((1, 3, 64, 64), math.nan)}, ValueError, "guide has NaN"),
        ({"guide": 1e30 * torch.rand(1, 3, 64, 64)}, ValueError, "guide has NaN"),
        ({"x": torch.full((1, 1, 8, 8), -math.inf), "invalid": math.inf}, ValueError, "x has infinite values"),
        ({"kernel_size": (3, 5)}, ValueError, "kernel_size must be odd"),
        ({"sigma": "a"}, TypeError, "sigma must be a number"),
        ({"invalid": "0"}, TypeError, "invalid must be a number"),
        ({"guide": [1]}, TypeError, "guide must be a tensor"),
        ({"kernel_size": 4}, ValueError, "kernel_size must be odd"),
        ({"sigma": 0}, ValueError, "sigma must be positive"),
        ({"iterations": -1}, ValueError, "iterations must be 0"),
        ({"memory": 0}, ValueError, "memory must be a positive"),
        ({"size": (4, 4)}, ValueError, "H is smaller than h"),
    ],
)  # fmt: skip
def test_errors_teach(change: dict[str, Any], error: type[Exception], words: str) -> None:
    arguments: dict[str, Any] = {"x": torch.rand(1, 1, 8, 8), "guide": torch.rand(1, 3, 64, 64)} | change
    with pytest.raises(error, match=words) as caught:
        sapa.guided_upsample(**arguments)
    assert str(caught.value).startswith("guided_upsample: ")
