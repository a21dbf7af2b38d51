"""Every upsampler of the registry, with nothing to add here for a new one."""

import copy
import pickle

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.export import Dim, export

import sapa
from sapa.nn import needs_guide

C = 8
SIZES = [((6, 8), (3, 4)), ((7, 9), (3, 4)), ((5, 3), (5, 3)), ((4, 1), (1, 1)), ((12, 4), (3, 2))]


def example(size: tuple[int, int] = (6, 8), low: tuple[int, int] = (3, 4), **options) -> tuple[Tensor, Tensor]:
    return torch.randn(2, C, *low, **options), torch.randn(2, C, *size, **options)


@pytest.mark.parametrize(("size", "low"), SIZES, ids=str)
def test_output_has_the_size_of_the_guide(upsampler: str, size: tuple[int, int], low: tuple[int, int]) -> None:
    x, guide = example(size, low)
    y = sapa.build(upsampler, C)(x, guide)
    assert y.shape == (2, C, *size)
    assert y.isfinite().all()


@pytest.mark.parametrize("scale", [1, 2, 3, (2, 1)], ids=str)
def test_scale_gives_the_size_without_a_guide(upsampler: str, scale: int | tuple[int, int]) -> None:
    x, _ = example()
    up = sapa.build(upsampler, C, scale=scale)
    if needs_guide(upsampler):
        with pytest.raises(ValueError, match="needs the high-res map"):
            up(x)
    else:
        Sy, Sx = (scale, scale) if isinstance(scale, int) else scale
        assert up(x).shape == (2, C, 3 * Sy, 4 * Sx)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last], ids=str)
def test_dtype_and_memory_format_are_kept(upsampler: str, dtype: torch.dtype, layout: torch.memory_format) -> None:
    size = (6, 8) if dtype == torch.float32 else (7, 9)
    x, guide = (t.to(dtype).contiguous(memory_format=layout) for t in example(size))
    up = sapa.build(upsampler, C).to(dtype)
    y = up(x, guide)
    assert y.dtype == dtype
    assert y.is_contiguous(memory_format=layout)
    exact = copy.deepcopy(up).double()(x.double(), guide.double())
    torch.testing.assert_close(
        y.double(), exact, rtol=0, atol=8 * torch.finfo(dtype).eps * float(exact.detach().abs().max())
    )


def test_every_parameter_receives_a_gradient(upsampler: str) -> None:
    x, guide = example(requires_grad=True)
    up = sapa.build(upsampler, C)
    up(x, guide).square().sum().backward()
    assert x.grad is not None
    assert [name for name, p in up.named_parameters() if p.grad is None or not p.grad.any()] == []


def test_samples_are_independent(upsampler: str) -> None:
    x, guide = example()
    up = sapa.build(upsampler, C).eval()
    torch.testing.assert_close(up(x, guide)[1:], up(x[1:], guide[1:]))


def test_state_dict_deepcopy_and_pickle(upsampler: str) -> None:
    x, guide = example()
    up, other = sapa.build(upsampler, C), sapa.build(upsampler, C)
    other.load_state_dict(up.state_dict())
    for twin in (other, copy.deepcopy(up), pickle.loads(pickle.dumps(up))):
        assert torch.equal(twin(x, guide), up(x, guide))
    assert "scale=2" in repr(up)


def test_autocast_and_training_mode(upsampler: str) -> None:
    x, guide = example()
    up = sapa.build(upsampler, C)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = up.train()(x, guide)
    if any(True for _ in up.parameters()):
        assert y.dtype == torch.bfloat16
    torch.testing.assert_close(y.float(), up.eval()(x, guide), rtol=0.05, atol=0.05)


def test_meta_device(upsampler: str) -> None:
    x, guide = example(device="meta")
    with torch.device("meta"):
        assert sapa.build(upsampler, C)(x, guide).shape == (2, C, 6, 8)


def test_compile(upsampler: str) -> None:
    x, guide = example(requires_grad=True)
    up = sapa.build(upsampler, C)
    y = torch.compile(up, fullgraph=True, backend="aot_eager")(x, guide)
    torch.testing.assert_close(y, up(x, guide))
    torch.testing.assert_close(*(torch.autograd.grad(out.square().sum(), x) for out in (y, up(x, guide))))


def test_export_with_dynamic_shapes(upsampler: str) -> None:
    up = sapa.build(upsampler, C)
    B, h, w, H, W = (Dim(name) for name in ("B", "h", "w", "H", "W"))
    program = export(up, example((7, 9)), dynamic_shapes=({0: B, 2: h, 3: w}, {0: B, 2: H, 3: W}))
    x, guide = torch.randn(3, C, 5, 6), torch.randn(3, C, 10, 13)
    torch.testing.assert_close(program.module()(x, guide), up(x, guide))


def test_same_result_on_every_backend(upsampler: str, backend: str) -> None:
    x, guide = example((7, 9), dtype=torch.float64)
    up = sapa.build(upsampler, C).double()
    y = up(x, guide)
    with sapa.use_backend(None if backend == "plain" else "reference"):
        torch.testing.assert_close(y, up(x, guide))


def test_nearest_and_bilinear_are_those_of_pytorch() -> None:
    x, _ = example()
    for scale in (1, 2, 3):
        assert torch.equal(sapa.build("nearest", C, scale=scale)(x), F.interpolate(x, scale_factor=scale))
        expected = F.interpolate(x, scale_factor=scale, mode="bilinear")
        assert torch.equal(sapa.build("bilinear", C, scale=scale)(x), expected)
