"""The operators, as `reference.py` defines them, on the kernels."""

from functools import partial

import torch
from torch import Tensor

from sapa.backends.reference import Bias
from sapa.backends.triton import assembly, backward, forward
from sapa.backends.triton.launch import empty, launch, sizes_of
from sapa.geometry import Size, size_of


def attend(q: Tensor, k: Tensor, v: Tensor, bias: Bias, kernel_size: Size, normalize: str, border: str) -> Tensor:
    C, D = v.shape[1], q.shape[1]
    y = empty((*v.shape[:2], *size_of(q)), v)
    launch(
        "attend",
        forward.attend_kernel,
        {"out": y, "q": q, "k": k, "v": v},
        sizes=sizes_of("attend", q, kernel_size, k=k),
        owns="points",
        cut=None,
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
    C, D = v.shape[1], q.shape[1]
    dq, dk, dv = (empty(tuple(x.shape), x) for x in (q, k, v))
    # peak, one over the sum, and delta of each point
    state = torch.empty((len(q), 3, *size_of(q)), dtype=_wide(v), device=v.device)
    parts = None if bias is None else state.new_empty((len(q), sum(kernel_size), *size_of(q)))
    options = {"C": C, "D": D, "NORMALIZE": normalize, "BORDER": border, "state": state, **_tables(bias, v)}
    run = partial(launch, sizes=sizes_of("attend", q, kernel_size, k=k), **options)

    maps = {"g": g, "q": q, "k": k, "v": v}
    run("points", backward.points_kernel, {"dq": dq, **maps}, owns="points", parts=parts)
    run("values", backward.values_kernel, {"dv": dv, "g": g, "q": q, "k": k}, owns="cells", cut="BC")
    run("keys", backward.keys_kernel, {"dk": dk, **maps}, owns="cells", cut="BD")
    if bias is None or parts is None:
        return [dq, dk, dv]
    sums = [one.sum((0, 3 - axis)).T for axis, one in enumerate(parts.split(kernel_size, 1))]  # [H, Kh], [W, Kw]
    return [dq, dk, dv, *(one.to(table.dtype).contiguous() for one, table in zip(sums, bias, strict=True))]


def assemble(v: Tensor, w: Tensor, kernel_size: Size, groups: int) -> Tensor:
    C = v.shape[1] // groups
    y = empty((*v.shape[:2], *size_of(w)), v)
    launch(
        "assemble",
        assembly.assemble_kernel,
        {"out": y, "v": v, "w": w},
        sizes=sizes_of("assemble", w, kernel_size, v=v),
        owns="points",
        cut="BC",
        C=C,
        G=groups,
    )
    return y


def assemble_backward(g: Tensor, v: Tensor, w: Tensor, kernel_size: Size, groups: int) -> list[Tensor]:
    C = v.shape[1] // groups
    dv, dw = empty(tuple(v.shape), v), empty(tuple(w.shape), w)
    run = partial(launch, sizes=sizes_of("assemble", w, kernel_size, v=v), C=C, G=groups)

    run("assemble_values", assembly.assemble_values_kernel, {"dv": dv, "g": g, "w": w}, owns="cells", cut="BC")
    run("assemble_weights", assembly.assemble_weights_kernel, {"dw": dw, "g": g, "v": v}, owns="points")
    return [dv, dw]


def _wide(x: Tensor) -> torch.dtype:
    return torch.promote_types(x.dtype, torch.float32)


def _tables(bias: Bias, v: Tensor) -> dict[str, Tensor | None]:
    """Rows and columns as the kernels want them: contiguous, in the accumulation type."""
    rows, columns = (table.to(_wide(v)).contiguous() for table in bias) if bias is not None else (None, None)
    return {"rows": rows, "columns": columns}
