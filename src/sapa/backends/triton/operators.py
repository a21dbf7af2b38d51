"""The operators, as `reference.py` defines them, on the kernels."""

import math
from typing import Any

import torch
from torch import Tensor

from sapa.backends.reference import Bias, bias_backward
from sapa.backends.triton import assembly, backward, forward
from sapa.backends.triton.fit import Sizes
from sapa.backends.triton.launch import empty, launch, sizes_of
from sapa.geometry import Size, size_of

MOST_KEPT = 2**28  # bytes between the kernels of a backward pass, if one sample takes no more


def attend(q: Tensor, k: Tensor, v: Tensor, bias: Bias, kernel_size: Size, normalize: str, border: str) -> Tensor:
    C, D = v.shape[1], q.shape[1]
    y = empty((*v.shape[:2], *size_of(q)), v)
    launch(
        "attend",
        forward.attend_kernel,
        {"out": y, "q": q, "k": k, "v": v},
        sizes=sizes_of("attend", q, kernel_size, k=k),
        C=C,
        D=D,
        NORMALIZE=normalize,
        BORDER=border,
        **_tables(bias, v),
    )
    return y


def attend_backward(
    g: Tensor, q: Tensor, k: Tensor, v: Tensor, bias: Bias, kernel_size: Size, normalize: str, border: str
) -> list[Tensor]:
    dq, dk, dv = gradients = [empty(tuple(x.shape), x) for x in (q, k, v)]
    kept = 2 * math.prod(kernel_size) * math.prod(size_of(g)) * _wide(v).itemsize  # for a sample
    samples, maps = max(1, MOST_KEPT // kept), (dq, dk, dv, g, q, k, v)
    if len(g) <= samples:
        return [*gradients, *_gradients(bias, kernel_size, normalize, border, *maps)]
    some = zip(*(x.split(samples) for x in maps), strict=True)
    of_bias = [_gradients(bias, kernel_size, normalize, border, *some_maps) for some_maps in some]
    return [*gradients, *(torch.stack(parts).sum(0) for parts in zip(*of_bias, strict=True))]


def _gradients(
    bias: Bias, kernel_size: Size, normalize: str, border: str,
    dq: Tensor, dk: Tensor, dv: Tensor, g: Tensor, q: Tensor, k: Tensor, v: Tensor,
) -> list[Tensor]:  # fmt: skip
    """Fills those of the maps, and returns those of the bias."""
    sizes, P = sizes_of("attend", q, kernel_size, k=k), math.prod(kernel_size)
    # w and ds: made here rather than kept from the forward pass, and gone with this call; in the format of v, as g may
    # be one number that stands for all
    windows = empty((len(g), 2 * P, *size_of(g)), v, dtype=_wide(v))
    launch(
        "points",
        backward.points_kernel,
        {"dq": dq, "windows": windows, "g": g, "q": q, "k": k, "v": v},
        sizes=sizes,
        C=v.shape[1],
        D=q.shape[1],
        NORMALIZE=normalize,
        BORDER=border,
        **_tables(bias, v),
    )
    w, ds = windows.split(P, 1)
    _scatter(dv, g, w, sizes, groups=1)
    _scatter(dk, q, ds, sizes, groups=1)
    return bias_backward(ds, bias, kernel_size)


def assemble(v: Tensor, w: Tensor, kernel_size: Size, groups: int) -> Tensor:
    C = v.shape[1] // groups
    y = empty((*v.shape[:2], *size_of(w)), v)
    launch(
        "assemble",
        assembly.assemble_kernel,
        {"out": y, "v": v, "w": w},
        sizes=sizes_of("assemble", w, kernel_size, v=v),
        C=C,
        G=groups,
    )
    return y


def assemble_backward(g: Tensor, v: Tensor, w: Tensor, kernel_size: Size, groups: int) -> list[Tensor]:
    dv, dw = empty(tuple(v.shape), v), empty(tuple(w.shape), w)
    sizes = sizes_of("assemble", w, kernel_size, v=v)
    _scatter(dv, g, w, sizes, groups)
    launch(
        "assemble_weights",
        assembly.assemble_weights_kernel,
        {"dw": dw, "g": g, "v": v},
        sizes=sizes,
        C=v.shape[1] // groups,
        G=groups,
    )
    return [dv, dw]


def _scatter(out: Tensor, a: Tensor, w: Tensor, sizes: Sizes, groups: int) -> None:
    launch(
        "scatter",
        assembly.scatter_kernel,
        {"out": out, "a": a, "w": w},
        sizes=sizes,
        owns="cells",
        C=out.shape[1] // groups,
        G=groups,
    )


def _wide(x: Tensor) -> torch.dtype:
    return torch.promote_types(x.dtype, torch.float32)


def _tables(bias: Bias, v: Tensor) -> dict[str, Any]:
    """Rows and columns as the kernels want them: contiguous, in the accumulation type."""
    rows, columns = (table.to(_wide(v)).contiguous() for table in bias) if bias is not None else (None, None)
    return {"rows": rows, "columns": columns}
