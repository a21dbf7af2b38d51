"""Norm-and-project against LayerNorm and a sum over channels, on every backend."""

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from oracle import assert_as_good
from torch import Tensor, nn
from torch.autograd import gradcheck
from torch.library import opcheck
from torch.utils.flop_counter import FlopCounterMode

import sapa
from sapa.backends import cpu, reference
from sapa.functional import project
from sapa.nn.pointwise import PointLinear, PointNorm, norm_and_project

FORMATS = (torch.contiguous_format, torch.channels_last)
SHAPES = [(1, 1, 1, 1, 1), (2, 5, 3, 4, 7), (1, 33, 6, 1, 100), (3, 64, 32, 9, 11), (1, 7, 40, 50, 2)]  # B C D H W


def problem(B: int, C: int, D: int, H: int, W: int, dtype: torch.dtype = torch.float64) -> list[Any]:
    """x, weight, bias, gamma, beta."""
    x = torch.randn(B, C, H, W) * torch.rand(C, 1, 1) + torch.randn(C, 1, 1)
    return [t.to(dtype) for t in (x, torch.randn(D, C), torch.randn(D), torch.rand(C) + 0.5, torch.randn(C))]


def expected(x: Tensor, weight: Tensor, bias: Tensor, gamma: Tensor, beta: Tensor, eps: float = 1e-5) -> Tensor:
    centred = x - x.mean(1, keepdim=True)
    z = centred / (centred.square().mean(1, keepdim=True) + eps).sqrt()
    z = z * gamma[:, None, None] + beta[:, None, None]
    return torch.einsum("dc,bchw->bdhw", weight, z) + bias[:, None, None]


def norm_of(gamma: Tensor, beta: Tensor) -> PointNorm:
    norm = PointNorm(len(gamma)).to(gamma.dtype)
    norm.load_state_dict({"weight": gamma, "bias": beta})
    return norm


@pytest.mark.parametrize("layout", FORMATS, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_equals_layer_norm_and_a_sum_over_channels(
    backend: str, shape: tuple[int, int, int, int, int], layout: torch.memory_format
) -> None:
    x, weight, bias, gamma, beta = problem(*shape)
    x = x.contiguous(memory_format=layout)
    y = project(x, weight, bias, norm_of(gamma, beta))
    torch.testing.assert_close(y, expected(x, weight, bias, gamma, beta))
    torch.testing.assert_close(project(x, weight), torch.einsum("dc,bchw->bdhw", weight, x))
    assert y.is_contiguous(memory_format=layout)


@pytest.mark.parametrize("has_norm", [False, True])
@pytest.mark.parametrize("has_bias", [False, True])
def test_gradcheck(backend: str, has_norm: bool, has_bias: bool) -> None:
    x, weight, bias, gamma, beta = (t.requires_grad_() for t in problem(2, 5, 3, 2, 3))
    norm = norm_of(gamma.detach(), beta.detach()) if has_norm else None
    parameters = [*norm.parameters()] if norm else []
    inputs = (x, weight, *([bias] if has_bias else []))
    assert gradcheck(lambda x, W, b=None: project(x, W, b, norm), inputs)
    y = project(x, weight, bias if has_bias else None, norm)
    g = torch.randn_like(y)
    found = torch.autograd.grad(y, [*inputs, *parameters], g)
    zero = torch.zeros(3, dtype=x.dtype)
    if norm is None:
        true = torch.einsum("dc,bchw->bdhw", weight, x) + (bias if has_bias else zero)[:, None, None]
    else:
        true = expected(x, weight, bias if has_bias else zero, norm.weight, norm.bias)
    torch.testing.assert_close(found, torch.autograd.grad(true, [*inputs, *parameters], g))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("layout", FORMATS, ids=str)
def test_low_precision_is_as_good_as_plain_pytorch(
    backend: str, dtype: torch.dtype, layout: torch.memory_format
) -> None:
    x, *parameters = problem(2, 128, 32, 12, 20, dtype)
    x = x.contiguous(memory_format=layout)
    g = torch.randn(2, 32, 12, 20, dtype=dtype)
    exact = [t.double() for t in (x, *parameters)]
    norm, wide = norm_of(*parameters[2:]), norm_of(*exact[3:])
    truth = project(exact[0], exact[1], exact[2], wide)
    plain = nn.functional.linear(norm(x).permute(0, 2, 3, 1), parameters[0], parameters[1]).permute(0, 3, 1, 2)
    assert_as_good(project(x, parameters[0], parameters[1], norm), plain, truth)
    if backend == "cpu":
        ours = cpu.project_backward(g, x, *parameters, eps=1e-5)
        plain = reference.project_backward(g, x, *parameters, eps=1e-5)
        truth = reference.project_backward(g.double(), *exact, eps=1e-5)
        for found, same_type, true in zip(ours, plain, truth, strict=True):
            assert_as_good(found, same_type, true)


def test_without_an_epsilon_points_beyond_the_map_stay_out() -> None:
    x, g = torch.randn(1, 16, 5, 7), torch.randn(1, 4, 5, 7)  # 35 points, fewer than a strip
    parameters = [torch.randn(4, 16), torch.randn(4), torch.randn(16), torch.randn(16)]
    ours, expected = (f.project_backward(g, x, *parameters, eps=0.0) for f in (cpu, reference))
    torch.testing.assert_close(ours, expected, rtol=1e-4, atol=1e-4)


def test_a_large_mean_does_not_eat_the_digits() -> None:
    """Folding the mean in after the sum over channels would lose all of them here."""
    x, *parameters = problem(1, 64, 8, 6, 7, torch.float32)
    shifted = (x * 16).round() + 2**20  # exact in float32
    y = cpu.project(shifted, *parameters, eps=1e-5)
    truth = expected(*(t.double() for t in (shifted, *parameters)))
    torch.testing.assert_close(y.double(), truth, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("layout", FORMATS, ids=str)
def test_slices_and_gaps_need_no_copy(layout: torch.memory_format) -> None:
    x, weight, *_ = problem(2, 12, 5, 9, 60)
    part = x.contiguous(memory_format=layout)[:, 2:9, 1:8, 3:57]
    torch.testing.assert_close(cpu.project(part, weight[:, :7], None, None, None, None), project(part, weight[:, :7]))
    stretched = x.contiguous(memory_format=layout)[..., ::2]
    reference_y = reference.project(stretched, weight, None, None, None, None)
    torch.testing.assert_close(cpu.project(stretched, weight, None, None, None, None), reference_y)


def test_results_do_not_depend_on_the_number_of_threads() -> None:
    x, *parameters = problem(2, 48, 16, 40, 50, torch.float32)
    g, results, before = torch.randn(2, 16, 40, 50), [], torch.get_num_threads()
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            y = cpu.project(x, *parameters, eps=1e-5)
            results.append([y, *cpu.project_backward(g, x, *parameters, eps=1e-5)])
    finally:
        torch.set_num_threads(before)
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True))


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning")  # of opcheck
@pytest.mark.parametrize("has_norm", [False, True])
def test_opcheck(has_norm: bool) -> None:
    x, weight, bias, gamma, beta = (t.float().requires_grad_() for t in problem(2, 5, 3, 4, 6))
    norm = (gamma, beta, 1e-5) if has_norm else (None, None, None)
    opcheck(torch.ops.sapa.project, (x, weight, None if has_norm else bias, *norm))
    arguments = [t if not isinstance(t, Tensor) else t.detach() for t in (x, weight, bias, *norm)]
    opcheck(torch.ops.sapa.project_backward, (torch.randn(2, 3, 4, 6), *arguments))


def test_flops_are_counted() -> None:
    x, weight, *_ = problem(2, 5, 3, 4, 6)
    with FlopCounterMode(display=False) as counter:
        project(x, weight)
    assert counter.get_total_flops() == 2 * 2 * 4 * 6 * 5 * 3


@pytest.mark.parametrize(
    ("norm", "layer"),
    [(PointNorm, lambda: nn.Conv2d(6, 4, 1)), (lambda n: nn.GroupNorm(2, n), lambda: PointLinear(6, 4))],
    ids=["other layer", "other norm"],
)
def test_layers_that_were_exchanged_are_called(
    norm: Callable[[int], nn.Module], layer: Callable[[], nn.Module]
) -> None:
    x, first, second = torch.randn(1, 6, 3, 3), norm(6), layer()
    torch.testing.assert_close(norm_and_project(x, first, second), second(first(x)))


def test_hooks_on_the_layers_are_called() -> None:
    x, norm, layer, seen = torch.randn(1, 6, 3, 3), PointNorm(6), PointLinear(6, 4), []
    y = norm_and_project(x, norm, layer)
    layer.register_forward_hook(lambda module, inputs, output: seen.append(output))
    torch.testing.assert_close(norm_and_project(x, norm, layer), y)
    assert len(seen) == 1


def test_patched_layers_and_global_hooks_are_called() -> None:
    x, norm, layer = torch.randn(1, 6, 3, 3), PointNorm(6), PointLinear(6, 4)
    layer.forward = lambda input: input * 0  # type: ignore[method-assign]
    assert not norm_and_project(x, norm, layer).any()
    seen = []
    handle = nn.modules.module.register_module_forward_hook(lambda module, *_: seen.append(type(module)))
    try:
        norm_and_project(x, norm, PointLinear(6, 4))
    finally:
        handle.remove()
    assert seen == [PointNorm, PointLinear]


def test_a_plain_query_calls_layers_that_were_changed() -> None:
    x, guide, up = torch.randn(1, 6, 3, 3), torch.randn(1, 6, 6, 6), sapa.SAPA(6, similarity="plain", embed_dim=4)
    y, seen = up(x, guide), []
    up.q.register_forward_hook(lambda *_: seen.append("q"))
    up.norm_y.register_forward_hook(lambda *_: seen.append("norm_y"))
    torch.testing.assert_close(up(x, guide), y)
    assert sorted(seen) == ["norm_y", "q"]


def test_a_norm_keeps_its_precision_under_autocast() -> None:
    x, norm, layer = 100 + torch.randn(1, 64, 6, 6), PointNorm(64), PointLinear(64, 32)
    nn.init.normal_(layer.weight)
    truth = layer.double()(norm.double()(x.double()))
    norm, layer = norm.float(), layer.float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        fused, plain = norm_and_project(x, norm, layer), layer(norm(x))
    assert fused.dtype == torch.bfloat16
    assert_as_good(fused, plain, truth)


def test_errors_say_what_does_not_fit() -> None:
    x, weight = torch.randn(1, 6, 3, 3), torch.randn(4, 6)
    with pytest.raises(
        ValueError, match=re.escape("project: bias is [1], but weight is [4, 6] (D C): it must be [4].")
    ):
        project(x, weight, torch.randn(1))
    with pytest.raises(ValueError, match=re.escape("project: norm.weight is [2], but weight is [4, 6] (D C)")):
        project(x, weight, None, nn.LayerNorm(2))
    with pytest.raises(ValueError, match="project: x is float32 but weight is float64"):
        project(x, weight.double())


@pytest.mark.filterwarnings("ignore:.*torch.jit.trace", "ignore::torch.jit.TracerWarning")
def test_what_a_short_way_could_get_wrong() -> None:
    q, k = torch.randn(2, 4, 10, 12), torch.randn(2, 4, 5, 6)
    v = torch.randn(2, 8, 5, 6, dtype=torch.complex64).conj().imag
    assert v.is_neg()
    torch.testing.assert_close(sapa.attend(q, k, v), sapa.attend(q, k, v.resolve_neg()))
    v = v.resolve_neg()
    traced: Any = torch.jit.trace(lambda v: sapa.attend(q, k, v), (v,), check_trace=False)
    torch.testing.assert_close(traced(2 * v), sapa.attend(q, k, 2 * v))
    with torch.profiler.profile() as profile:
        sapa.attend(q, k, v)
    assert any(event.key == "sapa::attend" for event in profile.key_averages())
