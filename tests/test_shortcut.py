"""A call on maps that were seen before takes the short way: the same result, and every observer still sees it."""

import pytest
import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.profiler import ProfilerActivity, profile
from torch.utils.flop_counter import FlopCounterMode

import sapa
from sapa import shortcut
from sapa.backends import cpu

pytestmark = pytest.mark.skipif(cpu.why_not() is not None, reason="the short way ends in the cpu kernels, not built")


def maps(dtype: torch.dtype = torch.float32) -> list[Tensor]:
    shapes = (2, 3, 8, 10), (2, 3, 4, 5), (2, 6, 4, 5)
    return [torch.randn(shape).to(dtype) for shape in shapes]


@pytest.fixture(autouse=True)
def _forget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shortcut, "_known", {})


def expected(q: Tensor, k: Tensor, v: Tensor, kernel_size: int = 5) -> Tensor:
    with sapa.use_backend("reference"):
        return sapa.attend(q, k, v, kernel_size=kernel_size)


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_second_call_with_other_values_in_other_memory(layout: torch.memory_format) -> None:
    for _ in range(3):
        q, k, v = (x.contiguous(memory_format=layout) for x in maps())
        y = sapa.attend(q, k, v)
        torch.testing.assert_close(y, expected(q, k, v))
        assert y.is_contiguous(memory_format=layout)
    assert len(shortcut._known) == 1


def test_other_strides_dtypes_and_options_are_other_calls() -> None:
    q, k, v = maps()
    sapa.attend(q, k, v)
    torch.testing.assert_close(sapa.attend(q.flip(3), k, v.mT.contiguous().mT), expected(q.flip(3), k, v))
    torch.testing.assert_close(sapa.attend(q, k, v, kernel_size=3), expected(q, k, v, 3))
    doubles = [x.double() for x in (q, k, v)]
    torch.testing.assert_close(sapa.attend(*doubles), expected(doubles[0], doubles[1], doubles[2]))
    assert len(shortcut._known) == 4


def test_what_the_checks_refuse_is_refused_after_a_likeness_passed() -> None:
    q, k, v = maps()
    for K in (1, 5):
        sapa.attend(q, k, v, kernel_size=K)
    for K in (5.0, True):
        with pytest.raises(ValueError, match="kernel_size must be odd"):
            sapa.attend(q, k, v, kernel_size=K)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="no normalize"):
        sapa.attend(q, k, v, normalize=["softmax"])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="q must be a tensor"):
        sapa.attend(q.numpy(), k, v)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="disagree on B"):
        sapa.attend(q, k[:1], v)


# PyTorch scripts its own formulas for forward mode the first time they are asked for
@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:FutureWarning")
def test_observers_see_a_call_that_was_seen_before() -> None:
    q, k, v = maps()
    sapa.attend(q, k, v)
    with FlopCounterMode(display=False) as counter:
        sapa.attend(q, k, v)
    assert counter.get_total_flops() > 0
    with profile(activities=[ProfilerActivity.CPU]) as recorded:
        sapa.attend(q, k, v)
    assert "sapa::attend" in {event.key for event in recorded.key_averages()}
    with torch.autocast("cpu", torch.bfloat16):
        assert sapa.attend(q, k, v).dtype == torch.bfloat16
    (g,) = torch.autograd.grad(sapa.attend(q, k, v.requires_grad_()).sum(), v)
    assert g.shape == v.shape
    v = v.detach()
    torch.testing.assert_close(torch.func.grad(lambda v: sapa.attend(q, k, v).sum())(v), g)
    with forward_ad.dual_level():
        tangent = forward_ad.unpack_dual(sapa.attend(q, k, forward_ad.make_dual(v, v))).tangent
    assert tangent is not None
    torch.testing.assert_close(tangent, expected(q, k, v))


def test_an_empty_batch_and_a_full_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shortcut, "CAPACITY", 2)
    empty = [x[:0] for x in maps()]
    assert sapa.attend(*empty).shape == sapa.attend(*empty).shape == (0, 6, 8, 10)
    for K in (1, 3, 5, 7, 1):
        q, k, v = maps()
        torch.testing.assert_close(sapa.attend(q, k, v, kernel_size=K), expected(q, k, v, K))
        assert len(shortcut._known) <= 2
