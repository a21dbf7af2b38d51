"""The Triton kernels in the interpreter, beyond the contract that test_backends.py holds all backends to.

They run in the process that test_triton.py starts with TRITON_INTERPRET=1, and are skipped elsewhere.
"""

import os
from typing import Any

import pytest
import torch
from torch import Tensor

import sapa
from sapa.backends import reference
from sapa.backends import triton as kernels
from sapa.checks import BORDER, NORMALIZE

pytestmark = pytest.mark.skipif(
    os.environ.get("TRITON_INTERPRET") != "1", reason="test_triton.py runs this in the interpreter"
)

Size = tuple[int, int]


@pytest.fixture(autouse=True)
def planned_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a test may change how calls are planned."""
    from sapa.backends.triton import launch

    monkeypatch.setattr(launch, "_plans", {})


def maps(C: int, D: int, size: Size, low: Size, *, layout: str = "NCHW", B: int = 1) -> list[Tensor]:
    """q, k, v and g in float64."""
    shapes = ((B, D, *size), (B, D, *low), (B, C, *low), (B, C, *size))
    format = torch.channels_last if layout == "channels_last" else torch.contiguous_format
    return [torch.randn(shape, dtype=torch.float64).contiguous(memory_format=format) for shape in shapes]


def tables(size: Size, K: Size) -> tuple[Tensor, Tensor]:
    return torch.randn(size[0], K[0], dtype=torch.float64), torch.randn(size[1], K[1], dtype=torch.float64)


def tiles_of(points: int, BD: int) -> dict[str, Any]:
    """For the interpreter, as small as those of a GPU."""
    from sapa.backends.triton.table import FORWARD, Gathering, Share, Tile

    share = Share(4, 8)
    return {
        "points": Tile(points, BD, FORWARD, share, share, share, share),
        "cells": Gathering(1, points, 16, 4, FORWARD),
    }


def assert_equal_to_the_reference(q: Tensor, k: Tensor, v: Tensor, g: Tensor, *window) -> None:
    torch.testing.assert_close(kernels.attend(q, k, v, *window), reference.attend(q, k, v, *window))
    ours, expected = (backend.attend_backward(g, q, k, v, *window) for backend in (kernels, reference))
    torch.testing.assert_close(ours, expected)


@pytest.mark.parametrize(("normalize", "border"), [*zip(NORMALIZE, (*BORDER, *BORDER, "mask"), strict=True)])
def test_every_normalisation_with_a_bias(normalize: str, border: str) -> None:
    q, k, v, g = maps(2, 2, (3, 4), (2, 2))
    assert_equal_to_the_reference(q, k, v, g, tables((3, 4), (1, 3)), (1, 3), normalize, border)


@pytest.mark.parametrize("layout", ["NCHW", "channels_last"])
def test_more_channels_than_a_tile(layout: str) -> None:
    q, k, v, g = maps(130, 70, (4, 3), (2, 1), layout=layout)
    assert_equal_to_the_reference(q / 8, k, v, g, None, (3, 1), "softmax", "zero")


@pytest.mark.parametrize(("size", "low"), [((11, 10), (2, 2)), ((8, 16), (1, 2)), ((6, 12), (2, 2))])
@pytest.mark.parametrize("enough", [1, 2**16])
def test_more_points_in_a_cell_than_a_program_holds(
    size: Size, low: Size, enough: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At whole and other ratios, with a part that is not full; programs share the points, and then the channels."""
    from sapa.backends.triton import fit, plan

    monkeypatch.setattr(fit, "ENOUGH", enough)
    monkeypatch.setattr(fit, "MOST_POINTS", 8)
    monkeypatch.setattr(plan, "INTERPRETED", tiles_of(points=16, BD=16))
    q, k, v, g = maps(20, 1, size, low, B=2)
    assert_equal_to_the_reference(q, k, v, g, None, (1, 3), "softmax", "mask")
    w = torch.randn(2, 3, *size, dtype=torch.float64)
    torch.testing.assert_close(kernels.assemble(v, w, (1, 3), 1), reference.assemble(v, w, (1, 3), 1))
    ours, expected = (backend.assemble_backward(g, v, w, (1, 3), 1) for backend in (kernels, reference))
    torch.testing.assert_close(ours, expected)


@pytest.mark.parametrize(
    ("low", "scale", "K", "columns"),
    [
        *(((2, 3), 3, 5, 6), ((2, 4), 4, 3, 4), ((1, 3), 5, 7, 8), ((2, 4), 2.5, 3, 4)),
        # here the column that is more than a cell needs is on the map, and may be the one that is not finite
        *(((1, 6), 3, 5, 6), ((1, 6), 3, 3, 4)),
    ],
)
@pytest.mark.parametrize("bad", [None, "infinite"])
def test_windows_that_load_in_pairs(
    low: Size, scale: float, K: int, columns: int, bad: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a single cell in planar maps: from an even column on, with one that cells at odd places need, or do not."""
    from sapa.backends.triton import launch, plan

    seen, run = [], launch.run

    def noted(kernel: Any, one: Any, arguments: Any) -> None:
        seen.extend(meta["COLUMNS"] for meta in one.candidates if "COLUMNS" in meta)
        run(kernel, one, arguments)

    monkeypatch.setattr(plan, "INTERPRETED", tiles_of(points=4, BD=16))
    monkeypatch.setattr(launch, "run", noted)
    size = (int(low[0] * scale), int(low[1] * scale))
    q, k, v, g = maps(17, 2, size, low)
    if bad:
        v[..., 0, low[1] // 2] = torch.inf
        k[..., 0, low[1] // 2] = torch.nan
    window = (tables(size, (K, K)), (K, K), "softmax", "mask")
    torch.testing.assert_close(kernels.attend(q, k, v, *window), reference.attend(q, k, v, *window), equal_nan=True)
    ours, expected = (backend.attend_backward(g, q, k, v, *window) for backend in (kernels, reference))
    torch.testing.assert_close(ours, expected, equal_nan=True)
    w = torch.randn(1, K * K, *size, dtype=torch.float64)
    found, expected = (backend.assemble(v, w, (K, K), 1) for backend in (kernels, reference))
    torch.testing.assert_close(found, expected, equal_nan=True)
    ours, expected = (backend.assemble_backward(g, v, w, (K, K), 1) for backend in (kernels, reference))
    torch.testing.assert_close(ours, expected, equal_nan=True)
    assert set(seen) == {columns}


@pytest.mark.parametrize("widest", [256, 16])
@pytest.mark.parametrize("D", [3, 70])
@pytest.mark.parametrize("normalize", ["softmax", "none"])
def test_a_window_in_parts(normalize: str, D: int, widest: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of more numbers than one product sums over, or multiplies at once; keys in one block, and in several."""
    from triton.language import constexpr

    from sapa.backends.triton import window

    monkeypatch.setattr(window, "WIDEST", constexpr(widest))
    q, k, v, g = maps(2, D, (4, 4), (2, 2))
    assert_equal_to_the_reference(q / D, k, v, g, tables((4, 4), (5, 7)), (5, 7), normalize, "mask")
    w = torch.randn(1, 35, 4, 4, dtype=torch.float64)
    ours, expected = (backend.assemble_backward(g, v, w, (5, 7), 1) for backend in (kernels, reference))
    torch.testing.assert_close(ours, expected)


@pytest.mark.parametrize("layout", ["channels_last", "planar"])
@pytest.mark.parametrize(
    ("scale", "C", "D", "K"),
    [(2, 16, 32, 5), (3, 40, 70, 5), (5, 16, 32, 3), (8, 64, 32, 5), (16, 16, 32, 5), (2, 16, 16, 7)],
)
def test_a_program_loads_each_number_once(scale: int, C: int, D: int, K: int, layout: str) -> None:
    """Of its queries, and of the keys and values of its window, which all of its points take theirs from."""
    from bench.gpu.loads import Call, loads_of

    low = (2, 4) if scale < 8 else (1, 2)
    found = loads_of(Call("attend", layout, scale, C, D, low, (K, K)))
    assert list(found) == ["q", "k", "v"]
    cells = low[0] * low[1]
    assert found["q"]["loads"] == found["q"]["numbers"] == D * scale**2 * cells
    for name, channels in (("k", D), ("v", C)):
        assert found[name]["loads"] == found[name]["of_programs"]
        assert found[name]["numbers"] == channels * cells


def test_programs_share_a_cell_of_more_points_than_they_hold() -> None:
    """Of 400 points one holds 256, the other the rest; each loads the window."""
    from bench.gpu.loads import Call, loads_of

    found = loads_of(Call("attend", scale=20, C=16, D=16, low=(1, 2)))
    assert found["q"]["loads"] == found["q"]["numbers"]
    for name in "kv":
        # both cells see each other
        assert found[name]["loads"] == found[name]["of_programs"] == 2 * 2 * found[name]["numbers"]


@pytest.mark.parametrize("layout", ["channels_last", "planar"])
@pytest.mark.parametrize(
    ("scale", "D", "times"), [(2, 32, 1), (2, 40, 2), (3, 32, 1), (8, 32, 1), (8, 40, 2), (16, 32, 1)]
)
def test_backward_loads_what_belongs_to_a_point_once(scale: int, D: int, times: int, layout: str) -> None:
    """Values, too; and keys, as long as one block has all of their channels: else again for dq."""
    from bench.gpu.loads import Call, loads_of

    low = (1, 4) if scale < 8 else (1, 2)
    found = loads_of(Call("points", layout, scale, 80, D, low))
    for name, C in (("g", 80), ("q", D)):
        assert found[name]["loads"] == found[name]["numbers"] == C * scale**2 * low[0] * low[1]
    assert found["v"]["loads"] == found["v"]["of_programs"]
    assert found["k"]["loads"] == times * found["k"]["of_programs"]
    found = loads_of(Call("scatter", C=16, D=D, low=(2, 8)))
    assert list(found) == ["g", "w"]
    assert all(found[name]["loads"] == found[name]["of_programs"] for name in found)


@pytest.mark.parametrize(("size", "low"), [((4, 8), (1, 2)), ((8, 16), (1, 2)), ((6, 12), (2, 2))])
def test_cells_with_more_points_down_or_across(size: Size, low: Size) -> None:
    q, k, v, g = maps(2, 2, size, low)
    assert_equal_to_the_reference(q, k, v, g, tables(size, (1, 3)), (1, 3), "softmax", "zero")


@pytest.mark.parametrize("number", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("size", [(4, 8), (5, 10)])
@pytest.mark.parametrize("spoilt", "qkvg")
def test_what_is_not_finite_reaches_what_sees_it(spoilt: str, size: Size, number: float) -> None:
    """In a strip of several cells, in both directions: the others keep their numbers."""
    named = dict(zip("qkvg", maps(3, 2, size, (2, 4)), strict=True))
    named[spoilt][0, 1, 1, 1] = number
    q, k, v, g = named.values()
    window = (None, (1, 3), "softmax", "mask")
    y, expected = (backend.attend(q, k, v, *window) for backend in (kernels, reference))
    torch.testing.assert_close(y, expected, equal_nan=True)
    ours, theirs = (backend.attend_backward(g, q, k, v, *window) for backend in (kernels, reference))
    torch.testing.assert_close(ours, theirs, equal_nan=True)
    # it is somewhere, and not everywhere
    assert not all(x.isfinite().all() for x in (expected, *theirs))
    assert all(x.isfinite().any() for x in (expected, *theirs))


@pytest.mark.parametrize("spoilt", "vwg")
def test_what_is_not_finite_is_assembled_where_it_is_seen(spoilt: str) -> None:
    _, _, v, g = maps(4, 1, (4, 8), (2, 4))
    named = {"v": v, "g": g, "w": torch.randn(1, 2 * 3, 4, 8, dtype=torch.float64)}
    named[spoilt][0, 2, 1, 1] = torch.inf
    w = named["w"]
    y, expected = (backend.assemble(v, w, (1, 3), 2) for backend in (kernels, reference))
    torch.testing.assert_close(y, expected, equal_nan=True)
    ours, theirs = (backend.assemble_backward(g, v, w, (1, 3), 2) for backend in (kernels, reference))
    torch.testing.assert_close(ours, theirs, equal_nan=True)
    assert not all(x.isfinite().all() for x in (expected, *theirs))


def test_maps_in_both_formats_at_once() -> None:
    q, k, v, g = maps(3, 2, (4, 6), (2, 3))
    v, g = (x.contiguous(memory_format=torch.channels_last) for x in (v, g))
    assert_equal_to_the_reference(q, k, v, g, None, (3, 3), "softmax", "mask")


def test_the_gradient_of_a_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    """One number that stands for all, as after y.sum().backward(): what is kept in between lies as other maps do."""
    from sapa.backends.triton import operators

    kept, run = [], operators.launch

    def launch(name: str, kernel: object, maps: dict[str, Tensor], **options: Any) -> None:
        kept.extend(x for name, x in maps.items() if name == "windows")
        run(name, kernel, maps, **options)

    monkeypatch.setattr(operators, "launch", launch)
    q, k, v, _ = maps(3, 2, (4, 6), (2, 3), layout="channels_last")
    g = torch.ones((), dtype=torch.float64).expand(1, 3, 4, 6)
    assert_equal_to_the_reference(q, k, v, g, None, (3, 3), "softmax", "mask")
    (windows,) = kept
    assert windows.is_contiguous(memory_format=torch.channels_last)


def test_a_backward_pass_takes_a_few_samples_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as there is room for between its kernels; for w and ds of 3 taps, at 8 points, in float64."""
    from sapa.backends.triton import operators

    launched, run = [], operators.launch

    def launch(name: str, kernel: object, maps: dict[str, Tensor], **options: Any) -> None:
        launched.extend(len(x) for name, x in maps.items() if name == "windows")
        run(name, kernel, maps, **options)

    monkeypatch.setattr(operators, "launch", launch)
    monkeypatch.setattr(operators, "MOST_KEPT", 2 * (2 * 3 * 8 * 8))
    for B, samples in ((5, [2, 2, 1]), (0, [0])):
        launched.clear()
        q, k, v, g = maps(3, 2, (2, 4), (1, 2), B=B)
        assert_equal_to_the_reference(q, k, v, g, tables((2, 4), (1, 3)), (1, 3), "softmax", "zero")
        assert launched == samples


def test_more_cells_than_a_program_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    from sapa.backends.triton import plan

    monkeypatch.setattr(plan, "INTERPRETED", tiles_of(points=8, BD=2))
    q, k, v, g = maps(3, 3, (4, 5), (2, 3))
    assert_equal_to_the_reference(q, k, v, g, tables((4, 5), (3, 1)), (3, 1), "softmax", "zero")


@pytest.mark.parametrize(("layout", "down"), [("NCHW", 2), ("channels_last", 4)])
def test_tiles_that_a_launch_may_take(layout: str, down: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not the interpreter's own: those of a GPU, cut as where they spill."""
    from triton.backends.compiler import GPUTarget

    from sapa.backends.triton import choice, launch

    monkeypatch.setattr(launch, "current_target", lambda: GPUTarget("cuda", 90, 32))
    monkeypatch.setattr(launch, "choose", lambda kernel, plan, _: [*choice.smaller(plan.candidates[0])][: down + 1][-1])
    q, k, v, g = maps(33, 3, (2, 4), (1, 2), layout=layout)
    assert_equal_to_the_reference(q, k, v, g, tables((2, 4), (1, 3)), (1, 3), "softmax", "mask")


def test_offsets_of_64_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    from sapa.backends.triton import plan

    monkeypatch.setattr(plan, "needs_int64", lambda maps, sizes: True)
    q, k, v, g = maps(2, 2, (4, 4), (2, 2), B=2)
    assert_equal_to_the_reference(q, k, v, g, tables((4, 4), (3, 1)), (3, 1), "softmax", "zero")


@pytest.mark.parametrize(
    ("layout", "C", "size"), [("NCHW", 6, (5, 4)), ("channels_last", 6, (5, 4)), ("NCHW", 130, (4, 6))]
)
def test_assemble_in_groups(layout: str, C: int, size: Size) -> None:
    _, _, v, g = maps(C, 1, size, (2, 3), layout=layout)
    w = torch.randn(1, 2 * 9, *size, dtype=torch.float64)
    torch.testing.assert_close(kernels.assemble(v, w, (3, 3), 2), reference.assemble(v, w, (3, 3), 2))
    ours, expected = (backend.assemble_backward(g, v, w, (3, 3), 2) for backend in (kernels, reference))
    torch.testing.assert_close(ours, expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_sums_of_narrow_types_are_made_in_float32(dtype: torch.dtype) -> None:
    """Beside the exact result, only the rounding of the output is left."""
    q, k, v, g = (x.to(dtype) for x in maps(3, 4, (4, 4), (2, 2)))
    window = (None, (3, 3), "softmax", "zero")
    found = [kernels.attend(q, k, v, *window), *kernels.attend_backward(g, q, k, v, *window)]
    q, k, v, g = (x.double() for x in (q, k, v, g))
    truth = [reference.attend(q, k, v, *window), *reference.attend_backward(g, q, k, v, *window)]
    for actual, expected in zip(found, truth, strict=True):
        assert actual.dtype == dtype
        torch.testing.assert_close(actual.double(), expected, rtol=torch.finfo(dtype).eps, atol=1e-5)


@pytest.mark.parametrize("layout", ["NCHW", "channels_last"])
def test_a_window_of_one_has_no_gradient_of_its_score(layout: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even a rounded one, in several blocks of channels: dw - sum(w dw) is a number minus itself."""
    from triton.backends.compiler import GPUTarget

    from sapa.backends.triton import launch

    monkeypatch.setattr(launch, "current_target", lambda: GPUTarget("cuda", 80, 32))
    monkeypatch.setattr(launch, "choose", lambda kernel, plan, _: plan.candidates[0])
    q, k, v, g = (x.float() for x in maps(256, 32, (2, 4), (1, 2), layout=layout))
    dq, dk, dv = kernels.attend_backward(g, q, k, v, None, (1, 1), "softmax", "zero")
    assert not dq.any()
    assert not dk.any()
    torch.testing.assert_close(dv, reference.attend_backward(g, q, k, v, None, (1, 1), "softmax", "zero")[2])


def test_a_tap_that_is_alone_has_no_gradient_of_its_score() -> None:
    """In float32: its weight is as near to 1 as a number can be, and dw - sum(w dw) next to nothing."""
    q, k, v, g = (x.float() for x in maps(32, 16, (4, 8), (2, 4)))
    window = (None, (1, 1), "relu", "zero")
    q, k = 8 * q.abs(), 8 * k.abs()
    ours, theirs = (backend.attend_backward(g, q, k, v, *window) for backend in (kernels, reference))
    for name, actual, expected in zip(("dq", "dk"), ours, theirs, strict=False):
        assert actual.abs().max() <= 2 * expected.abs().max() + 1e-12, name


@pytest.mark.parametrize("border", ["zero", "mask"])
@pytest.mark.parametrize("normalize", NORMALIZE)
def test_a_tap_that_is_left_out_beside_what_is_not_finite(normalize: str, border: str) -> None:
    """Without a sum it has no gradient, in the others NaN as the reference has."""
    q, k, v, g = maps(3, 2, (2, 4), (1, 2))
    rows, columns = tables((2, 4), (1, 3))
    columns[:, 2] = -torch.inf
    v[0, 0, 0, 1], g[0, 1, 0, 0] = torch.nan, torch.inf
    window = ((rows, columns), (1, 3), normalize, border)
    ours, theirs = (backend.attend_backward(g, q, k, v, *window) for backend in (kernels, reference))
    torch.testing.assert_close(ours, theirs, equal_nan=True)


def test_softplus_of_very_negative_scores_keeps_its_digits() -> None:
    q, k, v = torch.full((1, 1, 1, 2), -20.0), torch.tensor([[[[1.0, 1.1]]]]), torch.tensor([[[[1.0, 2.0]]]])
    window = (None, (1, 3), "softplus", "mask")
    exact = reference.attend(q.double(), k.double(), v.double(), *window)
    torch.testing.assert_close(kernels.attend(q, k, v, *window).double(), exact, rtol=1e-5, atol=0)


def test_compiled_in_one_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    monkeypatch.setattr(kernels, "attend", lambda *args, run=kernels.attend: calls.append("attend") or run(*args))
    q, k, v = (x.float().requires_grad_() for x in maps(2, 2, (4, 4), (2, 2))[:3])
    with sapa.use_backend("triton"):
        compiled = torch.compile(lambda q, k, v: 2 * sapa.attend(q, k, v, kernel_size=(1, 3)), fullgraph=True)
        y = compiled(q, k, v)
        (dq,) = torch.autograd.grad(y.sum(), q)
    expected = 2 * reference.attend(q, k, v, None, (1, 3), "softmax", "zero")
    torch.testing.assert_close(y, expected)
    torch.testing.assert_close(dq, *torch.autograd.grad(expected.sum(), q))
    assert calls == ["attend"]
