"""Every upsampler of the registry, with nothing to add here for a new one."""

import copy
import pickle
import re
from math import lcm
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.export import Dim, export

import sapa
from sapa.geometry import Size
from sapa.nn import needs_guide

C = 8
SIZES = [((6, 8), (3, 4)), ((7, 9), (3, 4)), ((5, 3), (5, 3)), ((4, 1), (1, 1)), ((12, 4), (3, 2))]
LAYOUTS = [torch.contiguous_format, torch.channels_last]
# a trace grows with the number of points, and says no more
TRACED: dict[str, dict[str, Any]] = {"sapa_d": {"points": 2}}
ONE_OF_EACH_CLASS = {type(sapa.build(name, 32)): name for name in reversed(sapa.UPSAMPLERS)}.values()


def make(name: str, **options) -> sapa.Upsampler:
    """With C channels, or the fewest more that the method can divide."""
    try:
        return sapa.build(name, C, **options)
    except ValueError as error:
        needed = re.search(r"channels must be divisible by (\d+)", str(error))
        if needed is None:
            raise
        return sapa.build(name, lcm(C, int(needed[1])), **options)


def half(size: Size) -> Size:
    return (size[0] + 1) // 2, (size[1] + 1) // 2


def example(up: sapa.Upsampler, size: Size = (6, 8), low: Size | None = None, **options) -> tuple[Tensor, Tensor]:
    """Maps of these sizes; x is half as large as the guide if `low` is None, or where `up` can do nothing else."""
    low = low if low is not None and up.any_size else half(size)
    return torch.randn(2, C, *low, **options), torch.randn(2, up.guide_channels, *size, **options)


def maps(up: sapa.Upsampler, *args, **options) -> list[tuple[Tensor, ...]]:
    """The calls `up` takes: with a guide, and without where it can."""
    x, guide = example(up, *args, **options)
    return [(x, guide)] if up.needs_guide else [(x, guide), (x,)]


@pytest.mark.parametrize(("size", "low"), SIZES, ids=str)
def test_output_has_the_size_of_the_guide(upsampler: str, size: Size, low: Size) -> None:
    up = make(upsampler)
    y = up(*example(up, size, low))
    assert y.shape == (2, C, *size)
    assert y.isfinite().all()


@pytest.mark.parametrize("scale", [1, 2, 3, (2, 1)], ids=str)
def test_scale_gives_the_size_without_a_guide(upsampler: str, scale: int | Size) -> None:
    up = make(upsampler, scale=scale)
    x = torch.randn(2, up.channels, 3, 4)
    size = (3 * up.scale[0], 4 * up.scale[1])
    guide = torch.randn(2, up.channels, *size)
    assert up(x, guide).shape == (2, up.channels, *size)
    if not needs_guide(upsampler):
        # all that the guide brings is its size
        assert torch.equal(up.eval()(x), up(x, guide))
        assert torch.equal(up(x), up(x, torch.randn(2, 5, *size, dtype=torch.float64)))
        assert up(x).shape == (2, up.channels, *size)


def test_without_its_guide_the_error_says_what_to_do(upsampler: str) -> None:
    up = make(upsampler)
    if up.needs_guide:
        with pytest.raises(ValueError, match=r"needs the high-res map of the encoder: call up\(x, guide\)") as error:
            up(torch.randn(2, C, 3, 4))
        offered = str(error.value).split("Without a guide: ")[1].removesuffix(".").split(", ")
        assert [name for name in offered if needs_guide(name)] == []


def test_a_method_that_multiplies_says_which_size_it_needs(upsampler: str) -> None:
    up = make(upsampler)
    if not up.any_size:
        with pytest.raises(ValueError, match=r"by scale=2: for the guide's 7x9 it needs x of 4x5, but x is 3x5"):
            up(torch.randn(2, C, 3, 5), torch.randn(2, C, 7, 9))


def test_the_guide_may_have_other_channels(upsampler: str) -> None:
    try:
        up = make(upsampler, guide_channels=5)
    except ValueError as error:
        assert "channels" in str(error)  # noqa: PT017
        assert needs_guide(upsampler)
    else:
        assert up(*example(up, (7, 9), (3, 4))).shape == (2, C, 7, 9)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_dtype_and_memory_format_are_kept(upsampler: str, dtype: torch.dtype, layout: torch.memory_format) -> None:
    up = make(upsampler).to(dtype)
    exact = copy.deepcopy(up).double()
    for args in maps(up, (6, 8) if dtype == torch.float32 else (7, 9), (3, 4)):
        args = [x.to(dtype).contiguous(memory_format=layout) for x in args]
        y = up(*args)
        assert y.dtype == dtype
        assert y.is_contiguous(memory_format=layout)
        expected = exact(*(x.double() for x in args))
        limit = 8 * torch.finfo(dtype).eps * float(expected.detach().abs().max())
        torch.testing.assert_close(y.double(), expected, rtol=0, atol=limit)


def test_every_parameter_receives_a_gradient(upsampler: str) -> None:
    up = make(upsampler)
    x, guide = example(up, requires_grad=True)
    up(x, guide).square().sum().backward()
    assert x.grad is not None
    assert x.grad.any()
    assert [name for name, p in up.named_parameters() if p.grad is None or not p.grad.any()] == []


@pytest.mark.filterwarnings("ignore:`torch.jit.script`:FutureWarning")  # of torch.func.jvp itself
def test_forward_mode_agrees_with_backward(upsampler: str) -> None:
    up = make(upsampler).double().eval()
    primals = example(up, (7, 9), (3, 4), dtype=torch.float64)
    tangents = tuple(torch.randn_like(x) for x in primals)
    try:
        y, along, *_ = torch.func.jvp(up, primals, tangents)
    except NotImplementedError as missing:
        assert "grid_sampler" in str(missing)  # noqa: PT017, the one operator of PyTorch here that has no forward mode
        return
    g = torch.randn_like(y)
    grads = torch.func.vjp(up, *primals)[1](g)
    back = sum((t * grad).sum() for t, grad in zip(tangents, grads, strict=True))
    torch.testing.assert_close((g * along).sum(), back)


def test_samples_are_independent(upsampler: str) -> None:
    up = make(upsampler).eval()
    x, guide = example(up)
    torch.testing.assert_close(up(x, guide)[1:], up(x[1:], guide[1:]))
    assert up(x[:0], guide[:0]).shape == (0, C, 6, 8)


def test_state_dict_deepcopy_and_pickle(upsampler: str) -> None:
    up, other = make(upsampler), make(upsampler)
    x, guide = example(up)
    other.load_state_dict(up.state_dict())
    for twin in (other, copy.deepcopy(up), pickle.loads(pickle.dumps(up))):
        assert torch.equal(twin(x, guide), up(x, guide))
    assert "scale=2" in repr(up)


def test_training_mode(upsampler: str) -> None:
    up = make(upsampler)
    x, guide = example(up)
    y = up.eval()(x, guide)
    assert torch.equal(y, up(x, guide)), "evaluation leaves no trace"
    if not any(True for _ in up.buffers()):
        assert torch.equal(up.train()(x, guide), y), "only running statistics make a difference"
    assert up.train()(x, guide).shape == y.shape


@pytest.mark.parametrize("is_training", [True, False], ids=["train", "eval"])
def test_autocast(upsampler: str, is_training: bool) -> None:
    up = make(upsampler).train(is_training)
    for args in maps(up):
        expected = up(*args)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = up(*args)
        if any(True for _ in up.parameters()):
            assert y.dtype == torch.bfloat16
        torch.testing.assert_close(
            y.float(), expected, rtol=0.05, atol=0.05 * max(1, float(expected.detach().abs().max()))
        )


def test_meta_device(upsampler: str) -> None:
    with torch.device("meta"):
        up = make(upsampler)
        for args in maps(up):
            assert up(*args).shape == (2, C, 6, 8)
        assert up(*example(up, (7, 9), (3, 4))).shape == (2, C, 7, 9)


def test_compile(upsampler: str) -> None:
    up = make(upsampler, **TRACED.get(upsampler, {})).eval()
    for args in maps(up, requires_grad=True):
        torch.compiler.reset()
        y, expected = torch.compile(up, fullgraph=True, backend="aot_eager")(*args), up(*args)
        torch.testing.assert_close(y, expected)
        torch.testing.assert_close(*(torch.autograd.grad(out.square().sum(), args[0]) for out in (y, expected)))


@pytest.mark.parametrize("upsampler", ONE_OF_EACH_CLASS)
def test_compile_for_changing_sizes(upsampler: str) -> None:
    up = make(upsampler, **TRACED.get(upsampler, {})).eval()
    torch.compiler.reset()
    compiled = torch.compile(up, fullgraph=True, backend="eager", dynamic=True)
    for size, low in (((6, 8), (3, 4)), ((9, 12), (4, 5))):
        x, guide = example(up, size, low)
        torch.testing.assert_close(compiled(x, guide), up(x, guide))


def test_export_with_dynamic_shapes(upsampler: str) -> None:
    up = make(upsampler, **TRACED.get(upsampler, {})).eval()
    B, h, w = (Dim(name, min=2) for name in ("B", "h", "w"))
    # a convolution with a stride of 2 cannot be exported for sizes of which it may leave a single point (torch 2.14)
    H, W = (Dim(name, min=3) for name in ("H", "W"))
    of_x: dict[int, Any] = {0: B, 2: h, 3: w}
    # where the size can only be multiplied, the guide has twice the size of x, or one point less
    sizes: list[tuple[Any, Any]] = [(H, W)] if up.any_size else [(2 * h, 2 * w), (2 * h - 1, 2 * w - 1)]
    for odd, (rows, columns) in enumerate(sizes):
        args = example(up, (8 - odd, 10 - odd))
        program = export(up, args, dynamic_shapes=(of_x, {0: B, 2: rows, 3: columns}))
        args = example(up, (12 - odd, 14 - odd), (5, 6))
        torch.testing.assert_close(program.module()(*args), up(*args))


def test_export_without_a_guide(upsampler: str) -> None:
    up = make(upsampler).eval()
    if not up.needs_guide:
        B, h, w = (Dim(name, min=2) for name in ("B", "h", "w"))
        program = export(up, (torch.randn(2, C, 4, 5),), dynamic_shapes=({0: B, 2: h, 3: w},))
        x = torch.randn(3, C, 6, 7)
        torch.testing.assert_close(program.module()(x), up(x))


def test_same_result_on_every_backend(upsampler: str, backend: str) -> None:
    up = make(upsampler).double().eval()
    args = example(up, (7, 9), (3, 4), dtype=torch.float64, requires_grad=True)
    y = up(*args)
    with sapa.use_backend(None if backend == "plain" else "reference"):
        other = up(*args)
    torch.testing.assert_close(y, other)
    torch.testing.assert_close(*(torch.autograd.grad(out.square().sum(), args[0]) for out in (y, other)))


def test_nearest_and_bilinear_are_those_of_pytorch() -> None:
    x = torch.randn(2, C, 3, 4)
    for scale in (1, 2, 3):
        assert torch.equal(sapa.build("nearest", C, scale=scale)(x), F.interpolate(x, scale_factor=scale))
        expected = F.interpolate(x, scale_factor=scale, mode="bilinear")
        assert torch.equal(sapa.build("bilinear", C, scale=scale)(x), expected)
