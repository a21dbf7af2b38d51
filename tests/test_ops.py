"""The operators inside PyTorch: opcheck, compile, export, functorch, autocast, FLOPs."""

import warnings

import pytest
import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.export import Dim, export
from torch.library import opcheck
from torch.utils.flop_counter import FlopCounterMode

import sapa

WINDOW = ((3, 5), "softmax", "zero")


def inputs(*, dtype: torch.dtype = torch.float32, requires_grad: bool = False) -> list[Tensor]:
    shapes = ((2, 3, 7, 9), (2, 3, 3, 4), (2, 4, 3, 4))
    return [torch.randn(shape, dtype=dtype, requires_grad=requires_grad) for shape in shapes]


def tables(requires_grad: bool = False) -> tuple[Tensor, Tensor]:
    return torch.randn(7, 3, requires_grad=requires_grad), torch.randn(9, 5, requires_grad=requires_grad)


@pytest.mark.filterwarnings(
    "ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning"
)  # of opcheck itself
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last], ids=str)
@pytest.mark.parametrize("has_bias", [False, True])
def test_opcheck(layout: torch.memory_format, has_bias: bool) -> None:
    q, k, v = (x.contiguous(memory_format=layout).requires_grad_() for x in inputs())
    bias = tables(requires_grad=True) if has_bias else (None, None)
    opcheck(torch.ops.sapa.attend, (q, k, v, *bias, *WINDOW))
    opcheck(torch.ops.sapa.kernels, (q, k, *bias, *WINDOW))
    w = sapa.kernels(q, k, kernel_size=(3, 5)).detach().requires_grad_()
    opcheck(torch.ops.sapa.assemble, (v, w, (3, 5), 1))


@pytest.mark.parametrize("has_bias", [False, True])
def test_opcheck_backward(has_bias: bool) -> None:
    q, k, v = inputs()
    bias = tables() if has_bias else (None, None)
    opcheck(torch.ops.sapa.attend_backward, (torch.randn(2, 4, 7, 9), q, k, v, *bias, *WINDOW))
    opcheck(torch.ops.sapa.kernels_backward, (torch.randn(2, 15, 7, 9), q, k, *bias, *WINDOW))
    opcheck(torch.ops.sapa.assemble_backward, (torch.randn(2, 4, 7, 9), v, torch.randn(2, 15, 7, 9), (3, 5), 1))


@pytest.mark.parametrize("kernel_size", [(1, 1), (3, 1), (1, 3), (5, 5)], ids=str)
@pytest.mark.parametrize("shape", [(0, 3, 4), (1, 1, 1), (1, 3, 4)], ids=str)
def test_opcheck_backward_of_every_shape(shape: tuple[int, int, int], kernel_size: tuple[int, int]) -> None:
    B, h, w = shape
    P = kernel_size[0] * kernel_size[1]
    for C in (1, 3):
        q, k, v, g = (torch.randn(B, n, *s) for n, s in ((1, (7, 4)), (1, (h, w)), (C, (h, w)), (C, (7, 4))))
        window = (kernel_size, "softmax", "zero")
        opcheck(torch.ops.sapa.attend_backward, (g, q, k, v, None, None, *window), test_utils="test_faketensor")
        weights = torch.randn(B, P, 7, 4)
        opcheck(torch.ops.sapa.assemble_backward, (g, v, weights, kernel_size, 1), test_utils="test_faketensor")


class Pipeline(nn.Module):
    """Each operator once."""

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        w = sapa.kernels(q, k, kernel_size=3, border="mask")
        return sapa.attend(q, k, v, kernel_size=5) * 2 + sapa.assemble(v, w, border="mask")


def test_compile_fullgraph_with_dynamic_shapes() -> None:
    model = Pipeline()
    compiled = torch.compile(model, fullgraph=True, dynamic=True)
    for B, size, low in ((2, (7, 9), (3, 4)), (3, (8, 10), (4, 5)), (2, (9, 9), (4, 4))):
        args = [torch.randn(B, C, *n, requires_grad=True) for C, n in ((3, size), (3, low), (4, low))]
        y, expected = compiled(*args), model(*args)
        torch.testing.assert_close(y, expected)
        torch.testing.assert_close(torch.autograd.grad(y.sum(), args), torch.autograd.grad(expected.sum(), args))


def test_compile_a_module_with_inductor() -> None:
    x, guide = torch.randn(2, 8, 3, 4, requires_grad=True), torch.randn(2, 8, 7, 9)
    up = sapa.build("sapa_g", 8, prior="gaussian")
    y, expected = torch.compile(up, fullgraph=True)(x, guide), up(x, guide)
    torch.testing.assert_close(y, expected)
    parameters = (x, *up.parameters())
    grads = (torch.autograd.grad(out.square().sum(), parameters) for out in (y, expected))
    torch.testing.assert_close(*grads, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["sapa_b", "sapa_g", "sapa_p"])
def test_compile_a_module_for_training_at_changing_sizes(name: str) -> None:
    up = sapa.build(name, 32)
    compiled = torch.compile(up, fullgraph=True)
    for s in (8, 9):
        x, guide = torch.randn(2, 32, s, s + 1, requires_grad=True), torch.randn(2, 32, 2 * s, 2 * s + 2)
        y, expected = compiled(x, guide), up(x, guide)
        torch.testing.assert_close(y, expected)
        grads = [torch.autograd.grad(out.square().sum(), x)[0] for out in (y, expected)]
        torch.testing.assert_close(*grads, rtol=1e-4, atol=1e-4)


def test_compile_of_the_reference_without_the_operators() -> None:
    args = inputs(requires_grad=True)
    with sapa.use_backend("reference"):
        y = torch.compile(lambda q, k, v: sapa.attend(q, k, v, kernel_size=3), fullgraph=True)(*args)
        torch.testing.assert_close(y, sapa.attend(*args, kernel_size=3))


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last], ids=str)
def test_export_with_dynamic_batch_height_and_width(strict: bool, layout: torch.memory_format) -> None:
    B, h, w, H, W = (Dim(name) for name in ("B", "h", "w", "H", "W"))
    low, high = {0: B, 2: h, 3: w}, {0: B, 2: H, 3: W}
    args = tuple(x.contiguous(memory_format=layout) for x in inputs())
    program = export(Pipeline(), args, dynamic_shapes=(high, low, low), strict=strict)
    assert any("sapa.attend" in str(node.target) for node in program.graph.nodes)
    for size, small in (((11, 12), (5, 6)), ((6, 8), (3, 4)), ((13, 13), (13, 4))):
        new = [torch.randn(3, C, *n).contiguous(memory_format=layout) for C, n in ((3, size), (3, small), (4, small))]
        torch.testing.assert_close(program.module()(*new), Pipeline()(*new))


def test_exported_program_trains_at_other_sizes() -> None:
    B, h, w, H, W = (Dim(name) for name in ("B", "h", "w", "H", "W"))
    low, high = {0: B, 2: h, 3: w}, {0: B, 2: H, 3: W}
    program = export(Pipeline(), tuple(inputs(requires_grad=True)), dynamic_shapes=(high, low, low))
    for size, small in (((7, 9), (3, 4)), ((11, 12), (5, 6))):
        args = [torch.randn(3, C, *n, requires_grad=True) for C, n in ((3, size), (3, small), (4, small))]
        grads = [torch.autograd.grad(f(*args).square().sum(), args) for f in (program.module(), Pipeline())]
        torch.testing.assert_close(*grads)


@pytest.mark.filterwarnings("ignore:`torch.jit.script`:FutureWarning")  # of torch.func.jvp itself
def test_functorch_transforms() -> None:
    q, k, v = inputs(dtype=torch.float64)

    def loss(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        w = sapa.kernels(q, k, kernel_size=3)
        return sapa.attend(q, k, v).square().sum() + sapa.assemble(v, w).sum()

    leaves = [x.clone().requires_grad_() for x in (q, k, v)]
    expected = torch.autograd.grad(loss(*leaves), leaves)
    torch.testing.assert_close(torch.func.grad(loss, argnums=(0, 1, 2))(q, k, v), expected)
    slope = torch.func.jvp(loss, (q, k, v), (q, k, v))[1]
    torch.testing.assert_close(slope, sum((g * x).sum() for g, x in zip(expected, (q, k, v), strict=True)))


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last], ids=str)
def test_vmap(layout: torch.memory_format) -> None:
    q, k, _ = (x.contiguous(memory_format=layout) for x in inputs())
    vs = torch.stack([torch.randn(2, 4, 3, 4).contiguous(memory_format=layout) for _ in range(3)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        y = torch.vmap(lambda v: sapa.attend(q, k, v))(vs)
        per_sample = torch.vmap(torch.func.grad(lambda v: sapa.attend(q, k, v).square().sum()))(vs)
    torch.testing.assert_close(y, torch.stack([sapa.attend(q, k, v) for v in vs]))
    v = vs[1].clone().requires_grad_()
    torch.testing.assert_close(per_sample[1], *torch.autograd.grad(sapa.attend(q, k, v).square().sum(), v))


@pytest.mark.parametrize("size", [(6, 8), (7, 9)])
def test_vmap_over_all_maps(size: tuple[int, int]) -> None:
    qs, ks, vs = torch.randn(3, 2, 4, *size), torch.randn(3, 2, 4, 3, 4), torch.randn(3, 2, 5, 3, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # of a rule that is missing, which costs time
        y = torch.vmap(sapa.attend)(qs, ks, vs)
    torch.testing.assert_close(y, torch.stack([sapa.attend(*maps) for maps in zip(qs, ks, vs, strict=True)]))


def test_nearest_under_torch_func_is_what_it_is_without() -> None:
    x = torch.randn(3, 1, 4, 2, 3)
    for size in ((2, 3), (4, 9)):
        up = sapa.build("nearest", 4, scale=(size[0] // 2, size[1] // 3))
        before = x.clone()
        y = torch.vmap(lambda x, up=up: up(x).mul_(5))(x)  # in place, and not in x
        assert torch.equal(x, before)
        assert torch.equal(y, torch.stack([5 * up(each) for each in x]))
        last = x[0].to(memory_format=torch.channels_last)
        grad = torch.func.grad(lambda x, up=up: up(x).square().sum())(last)
        assert grad.is_contiguous(memory_format=torch.channels_last)


def test_forward_mode_derivatives() -> None:
    q, k, v = inputs(dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(
        lambda *qkv: sapa.attend(*qkv, kernel_size=3), (q, k, v), check_forward_ad=True, check_backward_ad=False
    )
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(v.detach(), torch.ones_like(v))
        tangent = forward_ad.unpack_dual(sapa.attend(q.detach(), k.detach(), dual)).tangent
    torch.testing.assert_close(tangent, sapa.attend(q, k, torch.ones_like(v)).detach())


def test_vmap_over_the_backward_pass() -> None:
    args = inputs(dtype=torch.float64, requires_grad=True)
    y = Pipeline()(*args)
    gs = torch.randn(3, *y.shape, dtype=torch.float64)
    batched = torch.vmap(lambda g: torch.autograd.grad(y, args, g, retain_graph=True))(gs)
    for i, g in enumerate(gs):
        expected = torch.autograd.grad(y, args, g, retain_graph=True)
        torch.testing.assert_close([grad[i] for grad in batched], list(expected))


def test_second_derivative_of_the_operators_says_what_to_do() -> None:
    args = inputs(requires_grad=True)
    (g,) = torch.autograd.grad(sapa.attend(*args).square().sum(), args[:1], create_graph=True)
    with pytest.raises(RuntimeError, match=r"no second derivative.*sapa.use_backend\('reference'\)"):
        g.sum().backward()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_autocast_takes_mixed_dtypes_to_its_own(dtype: torch.dtype, backend: str) -> None:
    q, k, v = inputs(requires_grad=True)
    with torch.autocast("cpu", dtype=dtype):
        y = sapa.attend(q.to(dtype), k, v)
        w = sapa.kernels(q, k.to(dtype))
        assembled = sapa.assemble(v, w)
    assert y.dtype == w.dtype == assembled.dtype == dtype
    torch.testing.assert_close(y, sapa.attend(q.to(dtype), k.to(dtype), v.to(dtype)))
    y.float().sum().backward()
    assert v.grad is not None
    assert v.grad.dtype == torch.float32


def test_autocast_of_the_operator_itself_and_of_float64() -> None:
    q, k, v = inputs()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.ops.sapa.attend(q, k, v, None, None, *WINDOW).dtype == torch.bfloat16
        assert sapa.attend(q.double(), k.double(), v.double()).dtype == torch.float64


def test_flops() -> None:
    q, k, v = inputs(requires_grad=True)
    points, P, D, C = 2 * 7 * 9, 25, 3, 4

    def count(function) -> int:
        with FlopCounterMode(display=False) as counter:
            function()
        return counter.get_total_flops()

    w = sapa.kernels(q, k).detach().requires_grad_()
    assert count(lambda: sapa.attend(q, k, v)) == 2 * points * P * (D + C)
    assert count(lambda: sapa.kernels(q, k)) == 2 * points * P * D
    assert count(lambda: sapa.assemble(v, w)) == 2 * points * P * C
    assert count(lambda: sapa.attend(q, k, v).sum().backward()) == 2 * points * P * (4 * D + 3 * C)
    assert count(lambda: sapa.kernels(q, k).sum().backward()) == 2 * points * P * 4 * D
    assert count(lambda: sapa.assemble(v, w).sum().backward()) == 2 * points * P * 3 * C


def test_meta_device() -> None:
    q, k, v = (x.to("meta") for x in inputs())
    y = sapa.attend(q, k, v.to(memory_format=torch.channels_last))
    assert y.shape == (2, 4, 7, 9)
    assert y.is_contiguous(memory_format=torch.channels_last)
