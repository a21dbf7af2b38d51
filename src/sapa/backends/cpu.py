"""The CPU kernels in C++, loaded with ctypes. `csrc/` holds them; `csrc/abi.h` is what they and this file agree on."""

import ctypes
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import sapa.backends
from sapa.backends.reference import Bias
from sapa.checks import BORDER, DTYPES, NORMALIZE
from sapa.geometry import Size, memory_format

LIBRARY = "sapa_cpu.so"


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


@cache
def load() -> ctypes.CDLL | str:
    """The library, or the reason why there is none."""
    # an editable install keeps what was compiled apart from the sources
    paths = [Path(folder) / LIBRARY for folder in sapa.backends.__path__]
    path = next((path for path in paths if path.exists()), None)
    if path is None:
        return "not built: no C++ compiler with OpenMP was found when sapa was installed"
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        return f"cannot be loaded: {error}"
    for function in (library.sapa_forward, library.sapa_backward, library.sapa_isa):
        function.restype = ctypes.c_char_p
    library.sapa_forward.argtypes = library.sapa_backward.argtypes = [ctypes.POINTER(_Call)]
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
    _run("sapa_forward", _call(v, w, y, kernel_size, groups, w=_map(w)))
    return y


def assemble_backward(g: Tensor, v: Tensor, w: Tensor, kernel_size: Size, groups: int) -> list[Tensor]:
    dv, dw = _like(v), _like(w)
    _run("sapa_backward", _call(v, w, g, kernel_size, groups, w=_map(w), dv=_map(dv), dw=_map(dw)))
    return [dv, dw]


def _attend_call(
    q: Tensor, k: Tensor, v: Tensor, y: Tensor, tables: list[Tensor], kernel_size: Size, normalize: str, border: str
) -> _Call:
    call = _call(v, q, y, kernel_size, 1, q=_map(q), k=_map(k), D=q.shape[1])
    call.normalize, call.border = NORMALIZE.index(normalize), BORDER.index(border)
    if tables:
        call.rows, call.columns = (table.data_ptr() for table in tables)
    return call


def _call(v: Tensor, high: Tensor, y: Tensor, kernel_size: Size, groups: int, **given: Any) -> _Call:
    (B, C, low_h, low_w), (H, W), (Kh, Kw) = v.shape, high.shape[-2:], kernel_size
    sizes = {"B": B, "C": C, "H": H, "W": W, "low_h": low_h, "low_w": low_w, "Kh": Kh, "Kw": Kw, "G": groups}
    return _Call(v=_map(v), y=_map(y), dtype=DTYPES.index(v.dtype), **sizes, **given)


def _run(function: str, call: _Call) -> None:
    error = getattr(load(), function)(ctypes.byref(call)) if call.B else None
    if error is not None:
        raise RuntimeError(f"sapa: the cpu kernels ran into a problem: {error.decode()}")


def _map(x: Tensor) -> _Map:
    return _Map(x.data_ptr(), *x.stride())


def _like(x: Tensor, shape: tuple[int, ...] | None = None) -> Tensor:
    return torch.empty(shape or x.shape, dtype=x.dtype, memory_format=memory_format(x))


def _wide(bias: Bias, v: Tensor) -> list[Tensor]:
    """The tables as the kernels want them: contiguous, in the accumulation type."""
    return [table.to(torch.promote_types(v.dtype, torch.float32)).contiguous() for table in bias or ()]
