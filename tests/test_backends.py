"""Each backend keeps the contract: gradients, formats, precision, memory; and a new one is a file and a line."""

import sys
from types import ModuleType
from typing import Any

import pytest
import torch
from conftest import BACKENDS, IS_INTERPRETED, IS_WHOLE
from hypothesis import given
from hypothesis import strategies as st
from oracle import assert_as_good, unfolded
from strategies import FORMATS, Problem, lay_out, problems
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

import sapa
from sapa import backends
from sapa.backends import reference
from sapa.checks import BORDER, NORMALIZE
from sapa.geometry import memory_format

HALVES = (torch.bfloat16, torch.float16)


def leaves(*shapes: tuple[int, ...], dtype: torch.dtype = torch.float64) -> list[Tensor]:
    return [torch.randn(shape, dtype=dtype, requires_grad=True) for shape in shapes]


# not "plain", whose gradients are PyTorch's own
@pytest.mark.parametrize("backend", BACKENDS, indirect=True)
@pytest.mark.parametrize("border", BORDER)
@pytest.mark.parametrize("normalize", NORMALIZE)
def test_gradcheck_attend_and_kernels(backend: str, normalize: str, border: str) -> None:
    if IS_INTERPRETED and not IS_WHOLE and (normalize, border) != ("softmax", "zero"):
        pytest.skip("each takes a quarter of a minute in the interpreter: SAPA_WHOLE=1 runs them")
    q, k, v, rows, columns = leaves((1, 2, 5, 3), (1, 2, 2, 2), (1, 3, 2, 2), (5, 3), (3, 5))
    options = {"kernel_size": (3, 5), "normalize": normalize, "border": border}

    def attend(q: Tensor, k: Tensor, v: Tensor, *bias: Any) -> Tensor:
        return sapa.attend(q, k, v, bias=(bias[0], bias[1]), **options)

    # in full once, else along random directions, in which an error has no place to hide either
    is_fast = normalize != "softmax" or IS_INTERPRETED
    assert gradcheck(attend, (q, k, v, rows, columns), fast_mode=is_fast)
    if not IS_INTERPRETED:  # it has no kernel of its own for this
        assert gradcheck(
            lambda q, k, *bias: sapa.kernels(q, k, bias=bias, **options), (q, k, rows, columns), fast_mode=True
        )


@pytest.mark.parametrize("border", BORDER)
@pytest.mark.parametrize("size", [(4, 6), (5, 4)])
def test_gradcheck_assemble(backend: str, border: str, size: tuple[int, int]) -> None:
    v, w = leaves((2, 4, 2, 3), (2, 2 * 9, *size))
    w = w.abs().detach().requires_grad_()
    is_fast = border != "zero" or IS_INTERPRETED
    assert gradcheck(lambda v, w: sapa.assemble(v, w, groups=2, border=border), (v, w), fast_mode=is_fast)


@given(problem=problems(min_batch=1), normalize=st.sampled_from(NORMALIZE), border=st.sampled_from(BORDER))
def test_written_backward_equals_autograd(problem: Problem, normalize: str, border: str) -> None:
    tensors = [x.clone().requires_grad_() for x in (*problem.qkv, *(problem.bias or ()))]
    q, k, v, *bias = tensors
    tables = (bias[0], bias[1]) if bias else None
    y = reference.attend(q, k, v, tables, problem.kernel_size, normalize, border)
    g = torch.randn_like(y)
    with torch.no_grad():
        written = reference.attend_backward(g, q, k, v, tables, problem.kernel_size, normalize, border)
    torch.testing.assert_close(written, list(torch.autograd.grad(y, tensors, g)))


@pytest.mark.parametrize("normalize", NORMALIZE)
def test_bias_of_minus_infinity_has_gradient_zero(backend: str, normalize: str) -> None:
    q, k, v, rows, columns = leaves((1, 2, 4, 4), (1, 2, 2, 2), (1, 2, 2, 2), (4, 3), (4, 3))
    with torch.no_grad():
        rows[:, 0] = -torch.inf
    sapa.attend(q, k, v, kernel_size=3, normalize=normalize, bias=(rows, columns)).square().sum().backward()
    assert rows.grad is not None
    assert (rows.grad[:, 0] == 0).all()
    assert all(x.grad is not None and x.grad.isfinite().all() for x in (q, k, v, rows, columns))


@pytest.mark.parametrize("layout", FORMATS)
def test_output_and_gradients_keep_the_memory_format(backend: str, layout: str) -> None:
    q, k, v = (lay_out(torch.randn(2, 3, *size), layout).requires_grad_() for size in ((6, 8), (3, 4), (3, 4)))
    expected = torch.channels_last if layout == "channels_last" else torch.contiguous_format
    y = sapa.attend(q, k, v, kernel_size=3)
    w = sapa.kernels(q, k, kernel_size=3)
    grads = torch.autograd.grad(y.sum() + w[:, 0].sum() + sapa.assemble(v, w).sum(), (q, k, v))
    for x in (y, w, sapa.assemble(v, w), *(grads if backend != "plain" else ())):
        assert x.is_contiguous(memory_format=expected)


@pytest.mark.parametrize("cut", [lambda x: x[::2], lambda x: x[:, :3], lambda x: x[..., 1:], lambda x: x[:, :, :1, :1]])
def test_views_of_a_channels_last_map_are_channels_last(cut) -> None:
    x = torch.randn(4, 6, 5, 7).to(memory_format=torch.channels_last)
    assert memory_format(cut(x)) is torch.channels_last
    assert memory_format(cut(x.contiguous())) is torch.contiguous_format


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_half_types_are_as_good_as_plain_pytorch(backend: str, dtype: torch.dtype) -> None:
    q, k, v, g = (torch.randn(2, C, n, n).to(dtype) for C, n in ((16, 16), (16, 8), (24, 8), (24, 16)))

    def run(attend, dtype: torch.dtype) -> list[Tensor]:
        inputs = [x.to(dtype).requires_grad_() for x in (q, k, v)]
        y = attend(*inputs, 5)
        return [y.detach(), *torch.autograd.grad(y, inputs, g.to(dtype))]

    truth, plain = run(unfolded, torch.float64), run(unfolded, dtype)
    ours = run(lambda q, k, v, K: sapa.attend(q, k, v, kernel_size=K), dtype)
    for actual, expected, exact in zip(ours, plain, truth, strict=True):
        assert actual.dtype == dtype
        assert_as_good(actual, expected, exact)


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_half_types_accumulate_in_float32(backend: str, dtype: torch.dtype) -> None:
    # added to 1 one by one, the 288 small terms would each be lost in a half type
    v = torch.full((1, 1, 17, 17), 2.0**-12, dtype=dtype)
    v[0, 0, 0, 0] = 1
    y = sapa.assemble(v, torch.ones(1, 17 * 17, 17, 17, dtype=dtype))
    assert abs(float(y[0, 0, 8, 8]) - (1 + 288 * 2.0**-12)) < 2**-8


@given(problem=problems(dtype=torch.float32, min_batch=1))
def test_runs_are_bit_equal(backend: str, problem: Problem) -> None:
    def run() -> list[Tensor]:
        inputs = [x.clone().requires_grad_() for x in problem.qkv]
        y = sapa.attend(*inputs, kernel_size=problem.kernel_size, bias=problem.bias)
        return [y.detach(), *torch.autograd.grad(y.square().sum(), inputs)]

    assert all(torch.equal(a, b) for a, b in zip(run(), run(), strict=True))


@pytest.mark.parametrize("shape", [(0, 3, 2, 2), (2, 3, 1, 1)], ids=["empty batch", "single point"])
def test_empty_batches_and_single_points(backend: str, shape: tuple[int, ...]) -> None:
    B, C, h, w = shape
    for size in ((h, w), (2 * h, 3 * w)):
        q, k, v = leaves((B, 4, *size), (B, 4, h, w), (B, C, h, w))
        y = sapa.attend(q, k, v, border="mask")
        y.sum().backward()
        assert y.shape == (B, C, *size)
        assert v.grad is not None
        assert v.grad.shape == v.shape
        if h == 1:
            torch.testing.assert_close(y, v.expand_as(y))


def peak_bytes(function) -> int:
    """The most memory that was live at once among what PyTorch allocated; test_cpu.py measures the C++ besides."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        function()
    assert profile.profiler is not None
    results: Any = profile.profiler.kineto_results
    changes = sorted((e.start_ns(), e.nbytes()) for e in results.events() if e.name() == "[memory]")
    live = peak = 0
    for _, change in changes:
        live += change
        peak = max(peak, live)
    return peak


def test_memory_does_not_grow_with_window_times_channels(backend: str) -> None:
    q, k, v = torch.randn(1, 64, 32, 32), torch.randn(1, 64, 16, 16), torch.randn(1, 64, 16, 16)
    output = 4 * 64 * 32 * 32

    def forward(K: int) -> None:
        with torch.no_grad():
            sapa.attend(q, k, v, kernel_size=K)

    def forward_and_backward(K: int) -> None:
        inputs = [x.requires_grad_() for x in (q, k, v)]
        torch.autograd.grad(sapa.attend(*inputs, kernel_size=K).sum(), inputs)

    for run in (forward,) if backend == "plain" else (forward, forward_and_backward):
        run(3)  # the first call allocates what PyTorch keeps
        scores = (15 * 15 - 3 * 3) * 4 * 32 * 32
        assert peak_bytes(lambda run=run: run(3)) >= output
        assert peak_bytes(lambda run=run: run(15)) - peak_bytes(lambda run=run: run(3)) <= 8 * scores < 15 * 15 * output


def test_second_derivatives_through_the_reference() -> None:
    q, k, v, rows, columns = leaves((1, 2, 3, 4), (1, 2, 2, 2), (1, 2, 2, 2), (3, 3), (4, 3))
    with sapa.use_backend("reference"):
        for normalize in ("softmax", "sigmoid"):
            options = {"kernel_size": 3, "normalize": normalize}
            assert gradgradcheck(lambda q, k, v, *b: sapa.attend(q, k, v, bias=b, **options), (q, k, v, rows, columns))  # noqa: B023


def make_backend(**functions) -> ModuleType:
    module = ModuleType("tests.loud")
    vars(module).update(vars(reference) | functions)
    return module


def test_a_new_backend_is_a_file_and_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def attend(*args):
        calls.append("attend")
        return reference.attend(*args)

    def attend_backward(*args):
        calls.append("attend_backward")
        return reference.attend_backward(*args)

    loud = make_backend(attend=attend, attend_backward=attend_backward)
    monkeypatch.setitem(sys.modules, "tests.loud", loud)
    monkeypatch.setattr(backends, "BACKENDS", {"loud": "tests.loud", **backends.BACKENDS})
    q, k, v = leaves((1, 2, 4, 4), (1, 2, 2, 2), (1, 2, 2, 2))
    sapa.attend(q, k, v).sum().backward()
    assert calls == ["attend", "attend_backward"]
    with sapa.use_backend("reference"):
        sapa.attend(q, k, v).sum().backward()
    assert len(calls) == 2
    assert list(sapa.status()) == list(backends.BACKENDS)
    assert sapa.status()["loud"] == "ready"


def test_a_backend_that_cannot_run_is_passed_over_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tests.loud", make_backend(why_not=lambda device: "it has no horn"))
    monkeypatch.setattr(backends, "BACKENDS", {"loud": "tests.loud", "reference": "sapa.backends.reference"})
    q, k, v = torch.randn(1, 2, 4, 4), torch.randn(1, 2, 2, 2), torch.randn(1, 2, 2, 2)
    assert sapa.attend(q, k, v).shape == q.shape
    with sapa.use_backend("loud"), pytest.raises(RuntimeError) as error:
        sapa.attend(q, k, v)
    assert str(error.value) == ("backend 'loud' cannot run attend on cpu: loud: it has no horn · reference: ready")


def test_use_backend_sets_nests_and_restores() -> None:
    assert backends.forced() is None
    with sapa.use_backend("reference"):
        with sapa.use_backend(None):
            assert backends.forced() is None
        assert backends.forced() == "reference"
    assert backends.forced() is None
    again = sapa.use_backend("reference")
    assert backends.forced() == "reference"
    for _ in range(2):
        with again:
            assert backends.forced() == "reference"
        assert backends.forced() is None
    sapa.use_backend("reference")
    sapa.use_backend(None)
    assert backends.forced() is None
