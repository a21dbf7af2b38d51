"""What the operators compute: the definition in loops, and the properties that follow from it."""

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from oracle import centre, loops, unfolded
from strategies import Problem, problems

import sapa
from sapa.checks import BORDER, NORMALIZE
from sapa.geometry import centres, collect, nearest

normalizes, borders = st.sampled_from(NORMALIZE), st.sampled_from(BORDER)


@given(problems(), normalizes, borders)
def test_equals_the_definition_in_loops(backend: str, problem: Problem, normalize: str, border: str) -> None:
    options = {"kernel_size": problem.kernel_size, "normalize": normalize, "border": border, "bias": problem.bias}
    w, y = loops(*problem.qkv, **options)
    torch.testing.assert_close(sapa.kernels(problem.q, problem.k, **options), w)
    torch.testing.assert_close(sapa.attend(*problem.qkv, **options), y)


@given(problems(), normalizes, borders)
def test_attend_is_assemble_of_kernels(backend: str, problem: Problem, normalize: str, border: str) -> None:
    options = {"normalize": normalize, "border": border, "bias": problem.bias}
    w = sapa.kernels(problem.q, problem.k, kernel_size=problem.kernel_size, **options)
    y = sapa.assemble(problem.v, w, kernel_size=problem.kernel_size, border=border)
    torch.testing.assert_close(y, sapa.attend(*problem.qkv, kernel_size=problem.kernel_size, **options))


@given(problems(dtype=None), normalizes, borders)
def test_every_dtype_is_the_definition_rounded_once(
    backend: str, problem: Problem, normalize: str, border: str
) -> None:
    """Half types enter and leave, and the sums in between are kept in float32."""
    options = {"kernel_size": problem.kernel_size, "normalize": normalize, "border": border, "bias": problem.bias}
    weights, output = loops(*problem.qkv, **options)
    dtype = problem.q.dtype
    for actual, exact in (
        (sapa.kernels(problem.q, problem.k, **options), weights),
        (sapa.attend(*problem.qkv, **options), output),
    ):
        assert actual.dtype == dtype
        scale = float(exact.abs().max()) if exact.numel() else 0.0
        sums = 1e-13 if dtype == torch.float64 else 1e-5
        torch.testing.assert_close(actual.double(), exact, rtol=torch.finfo(dtype).eps, atol=sums * (1 + scale))


@given(problems(dtype=None), borders)
def test_weights_are_positive_and_sum_to_one(backend: str, problem: Problem, border: str) -> None:
    w = sapa.kernels(problem.q, problem.k, kernel_size=problem.kernel_size, border=border, bias=problem.bias)
    assert (w >= 0).all()
    # each of the weights is rounded by itself, and together they are one
    rounding = max(torch.finfo(w.dtype).eps, 1e-6 if w.dtype != torch.float64 else 1e-14)
    torch.testing.assert_close(w.double().sum(1), torch.ones_like(w[:, 0]).double(), rtol=0, atol=rounding)


@given(problems(dtype=None, min_batch=1))
def test_output_lies_in_the_range_of_its_window(backend: str, problem: Problem) -> None:
    Kh, Kw = problem.kernel_size
    y = sapa.attend(*problem.qkv, kernel_size=problem.kernel_size, border="mask", bias=problem.bias)
    edges = (Kw // 2, Kw // 2, Kh // 2, Kh // 2)
    high = F.max_pool2d(F.pad(problem.v, edges, value=-torch.inf), (Kh, Kw), 1)
    low = -F.max_pool2d(F.pad(-problem.v, edges, value=-torch.inf), (Kh, Kw), 1)
    size = (y.shape[-2], y.shape[-1])
    slack = 4 * torch.finfo(y.dtype).eps * problem.v.double().abs().max()
    assert (y.double() <= nearest(high, size).double() + slack).all()
    assert (y.double() >= nearest(low, size).double() - slack).all()


@given(problems(), normalizes, borders)
def test_is_linear_in_v(backend: str, problem: Problem, normalize: str, border: str) -> None:
    q, k, v = problem.qkv
    other = torch.randn_like(v)
    options = {"kernel_size": problem.kernel_size, "normalize": normalize, "border": border, "bias": problem.bias}
    both = sapa.attend(q, k, 2 * v - 3 * other, **options)
    torch.testing.assert_close(both, 2 * sapa.attend(q, k, v, **options) - 3 * sapa.attend(q, k, other, **options))


@given(problems(min_batch=1), normalizes, borders)
def test_samples_of_a_batch_are_independent(backend: str, problem: Problem, normalize: str, border: str) -> None:
    options = {"kernel_size": problem.kernel_size, "normalize": normalize, "border": border, "bias": problem.bias}
    alone = sapa.attend(*(x[-1:] for x in problem.qkv), **options)
    torch.testing.assert_close(sapa.attend(*problem.qkv, **options)[-1:], alone, rtol=0, atol=0)


@given(problems(dtype=None, min_batch=1))
def test_equals_nearest_when_the_score_of_the_centre_dominates(backend: str, problem: Problem) -> None:
    """Keys that name their point, one channel each: the query of a point picks the key of its centre."""
    v, size = problem.v, (problem.q.shape[-2], problem.q.shape[-1])
    B, _, h, w = v.shape
    k = torch.eye(h * w, dtype=v.dtype).view(1, h * w, h, w).expand(B, -1, -1, -1)
    y = sapa.attend(1000 * nearest(k, size), k, v, kernel_size=problem.kernel_size)
    torch.testing.assert_close(y, nearest(v, size), rtol=0, atol=0)


@given(
    problems(dtype=None, min_batch=1),
    st.integers(1, 3),
    st.integers(1, 3),
    st.integers(1, 3),
    st.integers(1, 3),
    borders,
)
def test_is_equivariant_to_shifts(
    backend: str, problem: Problem, Sy: int, Sx: int, down: int, right: int, border: str
) -> None:
    """Cut off rows and columns: points whose window stays inside what is left do not change."""
    (Kh, Kw), dtype = problem.kernel_size, problem.q.dtype
    eps = torch.finfo(dtype).eps
    h, w = 8 + down, 8 + right
    q, k, v = (torch.randn(1, 3, *n).to(dtype) for n in ((Sy * h, Sx * w), (h, w), (h, w)))
    y = sapa.attend(q, k, v, kernel_size=(Kh, Kw), border=border)
    cut = sapa.attend(
        q[..., Sy * down :, Sx * right :], *(x[..., down:, right:] for x in (k, v)), kernel_size=(Kh, Kw), border=border
    )
    top, left = Sy * (Kh // 2), Sx * (Kw // 2)
    expected = y[..., Sy * down + top :, Sx * right + left :]
    torch.testing.assert_close(cut[..., top:, left:], expected, rtol=2 * eps, atol=4 * eps)


@pytest.mark.parametrize("scale", [1, 2, 3, 4])
@pytest.mark.parametrize("K", [1, 3, 5, 7])
def test_equals_unfold_at_whole_scales(backend: str, scale: int, K: int) -> None:
    q, k, v = torch.randn(2, 4, 5 * scale, 3 * scale), torch.randn(2, 4, 5, 3), torch.randn(2, 6, 5, 3)
    torch.testing.assert_close(sapa.attend(q, k, v, kernel_size=K), unfolded(q, k, v, K))


def test_takes_the_integers_of_numpy() -> None:
    v, w = torch.randn(1, 4, 3, 3), torch.rand(1, 18, 6, 6)
    K: Any = np.int64(3)
    G: Any = np.int64(2)
    assert torch.equal(sapa.assemble(v, w, kernel_size=K, groups=G), sapa.assemble(v, w, groups=2))


def test_takes_a_different_scale_and_kernel_per_axis(backend: str) -> None:
    q, k, v = torch.randn(1, 2, 12, 3).double(), torch.randn(1, 2, 4, 3).double(), torch.randn(1, 2, 4, 3).double()
    torch.testing.assert_close(sapa.attend(q, k, v, kernel_size=(3, 1)), loops(q, k, v, (3, 1))[1])


@pytest.mark.parametrize("size", [1e2, 1e4, 1e30])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_softmax_is_stable_for_scores_of_any_size(backend: str, size: float, dtype: torch.dtype) -> None:
    q, k = torch.full((1, 1, 2, 2), size, dtype=dtype), torch.tensor([[[[1.0, -1.0]]]], dtype=dtype)
    v = torch.tensor([[[[3.0, 5.0]]]], dtype=dtype).requires_grad_()
    y = sapa.attend(q, k, v, kernel_size=3)
    y.sum().backward()
    assert (y == 3).all()
    assert v.grad is not None
    assert v.grad.tolist() == [[[[4.0, 0.0]]]]


@given(st.integers(1, 40), st.integers(1, 200))
def test_centre_rule_is_exact_for_every_ratio(low: int, high: int) -> None:
    assert centres(high, low, torch.device("cpu")).tolist() == [centre(p, low, high) for p in range(high)]


@given(problems(min_batch=1))
def test_collect_is_the_transpose_of_nearest(problem: Problem) -> None:
    high, low = problem.q, problem.k
    size, low_size = (high.shape[-2], high.shape[-1]), (low.shape[-2], low.shape[-1])
    torch.testing.assert_close((nearest(low, size) * high).sum(), (low * collect(high, low_size)).sum())
    rows = [centre(p, low_size[0], size[0]) for p in range(size[0])]
    columns = [centre(p, low_size[1], size[1]) for p in range(size[1])]
    torch.testing.assert_close(nearest(low, size), low[..., rows, :][..., columns], rtol=0, atol=0)


@given(problems(min_batch=1), st.sampled_from([1, 2, 3]), borders)
def test_groups_are_separate_assemblies(backend: str, problem: Problem, groups: int, border: str) -> None:
    B, C, h, w = problem.v.shape
    (H, W), P = problem.q.shape[-2:], problem.kernel_size[0] * problem.kernel_size[1]
    v, weights = torch.randn(B, groups * C, h, w).double(), torch.rand(B, groups * P, H, W).double()
    options = {"kernel_size": problem.kernel_size, "border": border}
    parts = zip(v.chunk(groups, 1), weights.chunk(groups, 1), strict=True)
    apart = torch.cat([sapa.assemble(a, b, **options) for a, b in parts], 1)
    torch.testing.assert_close(sapa.assemble(v, weights, groups=groups, **options), apart)


def test_assemble_reads_a_square_kernel_off_the_weights() -> None:
    v, w = torch.randn(1, 4, 3, 3), torch.rand(1, 2 * 9, 6, 6)
    assert torch.equal(sapa.assemble(v, w, groups=2), sapa.assemble(v, w, groups=2, kernel_size=3))


def test_assemble_with_mask_keeps_the_sum_of_the_weights(backend: str) -> None:
    w = torch.rand(1, 25, 7, 9).double()
    y = sapa.assemble(torch.ones(1, 2, 3, 4).double(), w, border="mask")
    torch.testing.assert_close(y, w.sum(1, keepdim=True).expand_as(y))


@pytest.mark.parametrize("border", BORDER)
def test_a_point_without_taps_is_zero(backend: str, border: str) -> None:
    q, k, v = torch.randn(1, 2, 2, 2), torch.randn(1, 2, 1, 1), torch.ones(1, 1, 1, 1, requires_grad=True)
    rows = torch.full((2, 3), -torch.inf)
    rows[1, 1] = 0
    y = sapa.attend(q, k, v, kernel_size=(3, 1), border=border, bias=(rows, torch.zeros(2, 1)))
    y.sum().backward()
    assert y.tolist() == [[[[0, 0], [1, 1]]]]
    assert v.grad is not None
    assert v.grad.item() == 2


def test_nan_reaches_only_the_points_that_see_it(backend: str) -> None:
    q, k, v = torch.randn(1, 2, 12, 12), torch.randn(1, 2, 6, 6), torch.randn(1, 2, 6, 6)
    sees = torch.zeros(12, 12, dtype=torch.bool)
    sees[2:8, 0:6] = True  # the 3x3 window of centres (1..3, 0..2) holds the point (2, 1)
    for broken in (k, v):
        spoilt = broken.clone()
        spoilt[0, 0, 2, 1] = torch.nan
        y = sapa.attend(q, *((spoilt, v) if broken is k else (k, spoilt)), kernel_size=3)
        assert (y.isnan()[0, 0] == sees).all()
        assert y.isnan()[0, 1].any() == (broken is k)
    spoilt = q.clone()
    spoilt[0, 0, 5, 7] = torch.nan
    assert sapa.attend(spoilt, k, v, kernel_size=3).isnan()[0, 0].nonzero().tolist() == [[5, 7]]
