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


@given(problems(), borders)
def test_weights_are_positive_and_sum_to_one(problem: Problem, border: str) -> None:
    w = sapa.kernels(problem.q, problem.k, kernel_size=problem.kernel_size, border=border, bias=problem.bias)
    assert (w >= 0).all()
    torch.testing.assert_close(w.sum(1), torch.ones_like(w[:, 0]))


@given(problems(min_batch=1))
def test_output_lies_in_the_range_of_its_window(backend: str, problem: Problem) -> None:
    Kh, Kw = problem.kernel_size
    y = sapa.attend(*problem.qkv, kernel_size=problem.kernel_size, border="mask", bias=problem.bias)
    edges = (Kw // 2, Kw // 2, Kh // 2, Kh // 2)
    high = F.max_pool2d(F.pad(problem.v, edges, value=-torch.inf), (Kh, Kw), 1)
    low = -F.max_pool2d(F.pad(-problem.v, edges, value=-torch.inf), (Kh, Kw), 1)
    size = (y.shape[-2], y.shape[-1])
    assert (y <= nearest(high, size) + 1e-12).all()
    assert (y >= nearest(low, size) - 1e-12).all()


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


@given(problems(min_batch=1))
def test_equals_nearest_when_the_centre_dominates(backend: str, problem: Problem) -> None:
    q, k, v = problem.qkv
    rows, columns = (torch.full((n, K), -1e4) for n, K in zip(q.shape[-2:], problem.kernel_size, strict=True))
    rows[:, rows.shape[1] // 2] = columns[:, columns.shape[1] // 2] = 0
    y = sapa.attend(q, k, v, kernel_size=problem.kernel_size, bias=(rows, columns))
    torch.testing.assert_close(y, nearest(v, (q.shape[-2], q.shape[-1])))


@pytest.mark.parametrize("scale", [1, 2, 3])
def test_is_equivariant_to_shifts(backend: str, scale: int) -> None:
    q, k, v = torch.randn(1, 4, 12 * scale, 12 * scale), torch.randn(1, 4, 12, 12), torch.randn(1, 3, 12, 12)
    y = sapa.attend(q, k, v, kernel_size=5)
    shifted = sapa.attend(q[..., scale:], k[..., 1:], v[..., 1:], kernel_size=5)
    # the window of a point two or more low-res points away from the new frame is the same one
    torch.testing.assert_close(shifted[..., 2 * scale :], y[..., 3 * scale :])


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
