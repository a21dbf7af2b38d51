"""The CPU kernels in C++, loaded with ctypes. `csrc/` holds them; `csrc/abi.h` is what they and this file agree on."""

import ctypes
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import sapa.backends
from sapa.backends.projection import gradients_of_parameters
from sapa.backends.reference import Bias
from sapa.checks import BORDER, DTYPES, NORMALIZE
from sapa.geometry import Size, memory_format

LIBRARY = "sapa_cpu.so"
FUNCTIONS = ("sapa_forward", "sapa_backward", "sapa_project", "sapa_project_backward", "sapa_isa")


class _Map(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        *((name, ctypes.c_int64) for name in ("batch", "channel", "row", "column")),
    )


class _Call(ctypes.Structure):
    _fields_ = (
        *((name, _Map) for name in ("q", "k", "v", "w", "y", "dq", "dk", "dv", "dw")),
        *((name, ctypes.c_void_p) for name in ("rows", "columns", "drows", "dcolumns")),
        *((name, ctypes.c_int64) for name in ("B", "C", "D", "H", "W", "low_h", "low_w", "Kh", "Kw", "G")),
        *((name, ctypes.c_int32) for name in ("dtype", "normalize", "border")),
    )


class _Projection(ctypes.Structure):
    _fields_ = (
        *((name, _Map) for name in ("x", "y", "dx")),
        *((name, ctypes.c_void_p) for name in ("weight", "bias", "gamma", "beta", "moments", "totals")),
        *((name, ctypes.c_int64) for name in ("B", "C", "D", "H", "W")),
        ("eps", ctypes.c_double),
        *((name, ctypes.c_int32) for name in ("dtype", "is_normed")),
    )


@cache
def load() -> ctypes.CDLL | str:
    """The library, or the reason why there is none."""
    # an editable install keeps what was compiled apart from the sources
    paths = [Path(folder) / LIBRARY for folder in sapa.backends.__path__]
    path = next((path for path in paths if path.exists()), None)
    if path is None:
        return "not built: no C++ compiler with OpenMP when sapa was installed, or it failed: see pip install -v"
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        return f"cannot be loaded: {error}"
    for function in FUNCTIONS:
        getattr(library, function).restype = ctypes.c_char_p
    if library.sapa_isa() is None:
        return "SAPA_ISA names an instruction set that this machine does not have"
    return library


def why_not(device: torch.device | None = None) -> str | None:
    """Say why the kernels cannot run on this device, or at all."""
    if device is not None and device.type != "cpu":
        return f"it runs on cpu, not on {device.type}"
    library = load()
    return library if isinstance(library, str) else None


def attend(q: Tensor, k: Tensor, v: Tensor, bias: Bias, kernel_size: Size, normalize: str, border: str) -> Tensor:
    y, tables = _like(v, (*v.shape[:2], *q.shape[-2:])), _wide(bias, v)
    _run("sapa_forward", _attend_call(q, k, v, y, tables, kernel_size, normalize, border))
    return y


def prepare_attend(
    q: Tensor, k: Tensor, v: Tensor, kernel_size: Size, normalize: str, border: str
) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """`attend` for maps of these shapes, strides and dtype, with everything but the addresses written down once."""
    y = _like(v, (*v.shape[:2], *q.shape[-2:]))
    size, stride = y.shape, y.stride()
    written = bytes(_attend_call(q, k, v, y, [], kernel_size, normalize, border))

    def run(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        y, call = v.new_empty_strided(size, stride), _Call.from_buffer_copy(written)
        call.q.data, call.k.data, call.v.data, call.y.data = q.data_ptr(), k.data_ptr(), v.data_ptr(), y.data_ptr()
        _run("sapa_forward", call)
        return y

    return run


def attend_backward(
    g: Tensor, q: Tensor, k: Tensor, v: Tensor, bias: Bias, kernel_size: Size, normalize: str, border: str
) -> list[Tensor]:
    tables = _wide(bias, v)
    call = _attend_call(q, k, v, g, tables, kernel_size, normalize, border)
    dq, dk, dv = _like(q), _like(k), _like(v)
    call.dq, call.dk, call.dv = _map(dq), _map(dk), _map(dv)
    dtables = [torch.zeros_like(table) for table in tables]
    if dtables:
        call.drows, call.dcolumns = (dtable.data_ptr() for dtable in dtables)
    _run("sapa_backward", call)
    return [dq, dk, dv, *(dtable.to(table.dtype) for dtable, table in zip(dtables, bias or (), strict=True))]


def assemble(v: Tensor, w: Tensor, kernel_size: Size, groups: int) -> Tensor:
    y = _like(v, (*v.shape[:2], *w.shape[-2:]))
    _run("sapa_forward", _assemble_call(v, w, y, kernel_size, groups))
    return y


def assemble_backward(g: Tensor, v: Tensor, w: Tensor, kernel_size: Size, groups: int) -> list[Tensor]:
    dv, dw = _like(v), _like(w)
    call = _assemble_call(v, w, g, kernel_size, groups)
    call.dv, call.dw = _map(dv), _map(dw)
    _run("sapa_backward", call)
    return [dv, dw]


def project(
    x: Tensor, weight: Tensor, bias: Tensor | None, gamma: Tensor | None, beta: Tensor | None, eps: float | None
) -> Tensor:
    y, parameters = _like(x, (x.shape[0], weight.shape[0], *x.shape[-2:])), _parameters(x, weight, bias, gamma, beta)
    _run("sapa_project", _projection(x, y, weight, parameters, eps))
    return y


def project_backward(
    g: Tensor,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    gamma: Tensor | None,
    beta: Tensor | None,
    eps: float | None,
) -> list[Tensor]:
    dx, parameters = _like(x), _parameters(x, weight, bias, gamma, beta)
    call = _projection(x, g, weight, parameters, eps)
    moments, totals = parameters["weight"].new_zeros(weight.shape), parameters["weight"].new_zeros(weight.shape[0])
    call.dx, call.moments, call.totals = _map(dx), moments.data_ptr(), totals.data_ptr()
    _run("sapa_project_backward", call)
    return [dx, *gradients_of_parameters(moments, totals, weight, bias, gamma, beta)]


def _projection(x: Tensor, y: Tensor, weight: Tensor, parameters: dict[str, Tensor], eps: float | None) -> _Projection:
    (B, C, H, W), D = x.shape, weight.shape[0]
    pointers = {name: parameter.data_ptr() for name, parameter in parameters.items()}
    norm = (0.0, False) if eps is None else (eps, True)
    return _Projection(
        x=_map(x), y=_map(y), **pointers, B=B, C=C, D=D, H=H, W=W, eps=norm[0], is_normed=norm[1], dtype=_dtype(x)
    )


def _parameters(x: Tensor, weight: Tensor, bias: Any, gamma: Any, beta: Any) -> dict[str, Tensor]:
    """Those that are there as the kernels want them: contiguous, in the accumulation type."""
    given = {"weight": weight, "bias": bias, "gamma": gamma, "beta": beta}
    wide = torch.promote_types(x.dtype, torch.float32)
    return {name: value.to(wide).contiguous() for name, value in given.items() if value is not None}


def _attend_call(
    q: Tensor, k: Tensor, v: Tensor, y: Tensor, tables: list[Tensor], kernel_size: Size, normalize: str, border: str
) -> _Call:
    call = _call(v, y, kernel_size, 1)
    call.q, call.k, call.D = _map(q), _map(k), q.shape[1]
    call.normalize, call.border = NORMALIZE.index(normalize), BORDER.index(border)
    if tables:
        call.rows, call.columns = (table.data_ptr() for table in tables)
    return call


def _assemble_call(v: Tensor, w: Tensor, y: Tensor, kernel_size: Size, groups: int) -> _Call:
    call = _call(v, y, kernel_size, groups)
    call.w = _map(w)
    return call


def _call(v: Tensor, y: Tensor, kernel_size: Size, groups: int) -> _Call:
    (B, C, low_h, low_w), (H, W), (Kh, Kw) = v.shape, y.shape[-2:], kernel_size
    return _Call(
        v=_map(v), y=_map(y), B=B, C=C, H=H, W=W, low_h=low_h, low_w=low_w, Kh=Kh, Kw=Kw, G=groups, dtype=_dtype(v)
    )


def _run(function: str, call: _Call | _Projection) -> None:
    error = getattr(load(), function)(ctypes.byref(call)) if call.B else None
    if error is not None:
        raise RuntimeError(f"sapa: the cpu kernels ran into a problem: {error.decode()}")


def _dtype(x: Tensor) -> int:
    return DTYPES.index(x.dtype)


def _map(x: Tensor) -> tuple[int, ...]:
    """The fields of a `_Map`."""
    return x.data_ptr(), *x.stride()


def _like(x: Tensor, shape: tuple[int, ...] | None = None) -> Tensor:
    layout = memory_format(x)
    if layout is torch.contiguous_format:
        return x.new_empty(shape or x.shape)
    return torch.empty(shape or x.shape, dtype=x.dtype, memory_format=layout)


def _wide(bias: Bias, v: Tensor) -> list[Tensor]:
    """The tables as the kernels want them: contiguous, in the accumulation type."""
    return [table.to(torch.promote_types(v.dtype, torch.float32)).contiguous() for table in bias or ()]
