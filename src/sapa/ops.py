"""torch.library: schema, kernel, fake, autograd, autocast and FLOP formula of each operator. No arithmetic.

PyTorch brings every device to the same kernel here, which asks the backends in their order.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils.flop_counter import register_flop_formula

from sapa.backends import choose, reference
from sapa.geometry import Size, memory_format

Shape = tuple[int, ...]

WINDOW = "Tensor? rows, Tensor? columns, int[2] kernel_size, str normalize, str border"
AUTOCAST_DEVICES = ("cpu", "cuda", "xpu", "mps")

library = torch.library.Library("sapa", "DEF")


def register(
    schema: str, call: Callable, backward: Callable, fake: Callable, flops: Callable, backward_flops: Callable
) -> None:
    """Define an operator and its backward, which takes the gradient g and then the same arguments."""
    name, arguments = schema.removesuffix(")").split("(")
    maps = arguments.count("Tensor ")
    for signature in (f"{schema} -> Tensor", f"{name}_backward(Tensor g, {arguments}) -> Tensor[]"):
        library.define(signature, tags=(torch.Tag.pt2_compliant_tag,))
    op, backward_op = getattr(torch.ops.sapa, name), getattr(torch.ops.sapa, f"{name}_backward")

    def save(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        tensors = [x for x in inputs if x is None or isinstance(x, Tensor)]
        ctx.save_for_backward(*tensors)
        ctx.options = inputs[len(tensors) :]

    def differentiate(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        tensors = ctx.saved_tensors
        grads = iter(backward_op(g, *tensors, *ctx.options))
        return (*(None if x is None else next(grads) for x in tensors), *[None] * len(ctx.options))

    def cast_and_call(*args: Any) -> Tensor:
        tensors = autocast(*args[:maps])
        with torch.autocast(tensors[0].device.type, enabled=False):
            return op(*tensors, *args[maps:])

    def one_by_one(info: Any, in_dims: tuple[Any, ...], *args: Any) -> tuple[list[Tensor], list[int]]:
        samples = [
            [x.select(dim, i) if isinstance(dim, int) else x for x, dim in zip(args, in_dims, strict=True)]
            for i in range(info.batch_size)
        ]
        grads = [torch.stack(grad) for grad in zip(*(backward_op(*sample) for sample in samples), strict=True)]
        return grads, [0] * len(grads)

    library.impl(name, call, "CompositeExplicitAutograd")
    library.impl(f"{name}_backward", backward, "CompositeExplicitAutograd")
    torch.library.register_fake(f"sapa::{name}", fake, lib=library)
    torch.library.register_fake(f"sapa::{name}_backward", _fake_backward, lib=library)
    torch.library.register_autograd(f"sapa::{name}", differentiate, setup_context=save, lib=library)
    torch.library.register_autograd(f"sapa::{name}_backward", _no_second_derivative, lib=library)
    torch.library.register_vmap(f"sapa::{name}_backward", one_by_one, lib=library)
    for device in AUTOCAST_DEVICES:
        library.impl(name, cast_and_call, f"Autocast{device.upper()}")
    register_flop_formula(op)(flops)
    register_flop_formula(backward_op)(backward_flops)


def autocast(*tensors: Tensor) -> tuple[Tensor, ...]:
    """The tensors in the dtype of autocast, where it is on: as for a matrix product, the lower precision."""
    device = tensors[0].device.type
    if not is_autocast(device):
        return tensors
    dtype = torch.get_autocast_dtype(device)
    return tuple(x if x.dtype == torch.float64 else x.to(dtype) for x in tensors)


def is_autocast(device: str) -> bool:
    return torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device)


def _bias(rows: Tensor | None, columns: Tensor | None) -> reference.Bias:
    if (rows is None) != (columns is None):
        raise ValueError("sapa: rows and columns of the bias come together; the table of zeros is a neutral one.")
    return None if rows is None or columns is None else (rows, columns)


def _empty(shape: Shape, like: Tensor) -> Tensor:
    layout = memory_format(like) if like.ndim == 4 else torch.contiguous_format
    return torch.empty(shape, dtype=like.dtype, device=like.device, memory_format=layout)


def _fake_backward(g: Tensor, *inputs: Any) -> list[Tensor]:
    return [_empty(tuple(x.shape), x) for x in inputs if isinstance(x, Tensor)]


def _no_second_derivative(ctx: Any, *_: Any) -> None:
    raise RuntimeError(
        "sapa: this operator has no second derivative. Run the forward pass under sapa.use_backend('reference'), "
        "which is ordinary PyTorch and can be differentiated any number of times."
    )


# ---- attend


def _attend(q: Tensor, k: Tensor, v: Tensor, rows: Any, columns: Any, *window: Any) -> Tensor:
    return choose("attend", v.device).attend(q, k, v, _bias(rows, columns), *window)


def _attend_backward(g: Tensor, q: Tensor, k: Tensor, v: Tensor, rows: Any, columns: Any, *window: Any) -> list[Tensor]:
    return choose("attend", v.device).attend_backward(g, q, k, v, _bias(rows, columns), *window)


def _attend_fake(q: Tensor, k: Tensor, v: Tensor, *_: Any) -> Tensor:
    return _empty((*v.shape[:2], *q.shape[-2:]), v)


def _attend_flops(q: Shape, k: Shape, v: Shape, rows: Any, columns: Any, kernel_size: Size, *_: Any, **__: Any) -> int:
    return _products(q, kernel_size) * (q[1] + v[1])


def _attend_backward_flops(
    g: Shape, q: Shape, k: Shape, v: Shape, rows: Any, columns: Any, kernel_size: Size, *_: Any, **__: Any
) -> int:
    return _products(q, kernel_size) * (3 * q[1] + 2 * v[1])


# ---- kernels


def _kernels(q: Tensor, k: Tensor, rows: Any, columns: Any, *window: Any) -> Tensor:
    return reference.kernels(q, k, _bias(rows, columns), *window)


def _kernels_backward(g: Tensor, q: Tensor, k: Tensor, rows: Any, columns: Any, *window: Any) -> list[Tensor]:
    return reference.kernels_backward(g, q, k, _bias(rows, columns), *window)


def _kernels_fake(q: Tensor, k: Tensor, rows: Any, columns: Any, kernel_size: Size, *_: Any) -> Tensor:
    return _empty((q.shape[0], kernel_size[0] * kernel_size[1], *q.shape[-2:]), q)


def _kernels_flops(q: Shape, k: Shape, rows: Any, columns: Any, kernel_size: Size, *_: Any, **__: Any) -> int:
    return _products(q, kernel_size) * q[1]


def _kernels_backward_flops(
    g: Shape, q: Shape, k: Shape, rows: Any, columns: Any, kernel_size: Size, *_: Any, **__: Any
) -> int:
    return _products(q, kernel_size) * 3 * q[1]


# ---- assemble


def _assemble(v: Tensor, w: Tensor, *window: Any) -> Tensor:
    return choose("assemble", v.device).assemble(v, w, *window)


def _assemble_backward(g: Tensor, v: Tensor, w: Tensor, *window: Any) -> list[Tensor]:
    return choose("assemble", v.device).assemble_backward(g, v, w, *window)


def _assemble_fake(v: Tensor, w: Tensor, *_: Any) -> Tensor:
    return _empty((*v.shape[:2], *w.shape[-2:]), v)


def _assemble_flops(v: Shape, w: Shape, kernel_size: Size, *_: Any, **__: Any) -> int:
    return _products(w, kernel_size) * v[1]


def _assemble_backward_flops(g: Shape, v: Shape, w: Shape, kernel_size: Size, *_: Any, **__: Any) -> int:
    return _products(w, kernel_size) * 2 * v[1]


# ---- project


def _project(x: Tensor, weight: Tensor, *args: Any) -> Tensor:
    return choose("project", x.device).project(x, weight, *args)


def _project_backward(g: Tensor, x: Tensor, *args: Any) -> list[Tensor]:
    return choose("project", x.device).project_backward(g, x, *args)


def _project_fake(x: Tensor, weight: Tensor, *_: Any) -> Tensor:
    return _empty((x.shape[0], weight.shape[0], *x.shape[-2:]), x)


def _project_flops(x: Shape, weight: Shape, *_: Any, **__: Any) -> int:
    return _products(x, (1, 1)) * weight[0] * weight[1]


def _project_backward_flops(g: Shape, x: Shape, weight: Shape, *_: Any, **__: Any) -> int:
    return 2 * _products(x, (1, 1)) * weight[0] * weight[1]


def _products(high: Shape, kernel_size: Size) -> int:
    """FLOPs of one channel: a multiplication and an addition for each tap of each high-res point."""
    B, _, H, W = high
    return 2 * B * H * W * kernel_size[0] * kernel_size[1]


register(
    f"attend(Tensor q, Tensor k, Tensor v, {WINDOW})",
    call=_attend,
    backward=_attend_backward,
    fake=_attend_fake,
    flops=_attend_flops,
    backward_flops=_attend_backward_flops,
)
register(
    f"kernels(Tensor q, Tensor k, {WINDOW})",
    call=_kernels,
    backward=_kernels_backward,
    fake=_kernels_fake,
    flops=_kernels_flops,
    backward_flops=_kernels_backward_flops,
)
register(
    "assemble(Tensor v, Tensor w, int[2] kernel_size, int groups)",
    call=_assemble,
    backward=_assemble_backward,
    fake=_assemble_fake,
    flops=_assemble_flops,
    backward_flops=_assemble_backward_flops,
)
register(
    "project(Tensor x, Tensor weight, Tensor? bias, Tensor? gamma, Tensor? beta, float? eps)",
    call=_project,
    backward=_project_backward,
    fake=_project_fake,
    flops=_project_flops,
    backward_flops=_project_backward_flops,
)
