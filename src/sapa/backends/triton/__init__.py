"""GPU kernels in Triton for NVIDIA, AMD and Intel: compiled when they are first used, nothing at install.

The kernels are in `forward.py`, `backward.py` and `assembly.py`, what they are made of in `tiles.py`, `maps.py`,
`scores.py` and `window.py`; `operators.py` launches them, `table.py` and `fit.py` say with which tile. docs/gpu.md has
what they compile to and what has been shown of them.
"""

import os
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor
from torch.torch_version import TorchVersion

from sapa.backends.projection import project, project_backward
from sapa.backends.reference import Bias
from sapa.geometry import Size

DEVICES = ("cuda", "xpu")  # an AMD GPU is a cuda device to PyTorch
OLDEST = "3.5"  # of Triton: before, products of matrices had 16 rows at least

__all__ = [
    "assemble",
    "assemble_backward",
    "attend",
    "attend_backward",
    "project",
    "project_backward",
    "why_not",
]


def why_not(device: torch.device | None = None) -> str | None:
    """Say why the kernels cannot run on this device, or at all."""
    if device is not None and device.type not in (("cpu",) if is_interpreted() else DEVICES):
        runs_on = "cpu while TRITON_INTERPRET is 1" if is_interpreted() else "cuda and xpu"
        return f"it runs on {runs_on}, not on {device.type}"
    if _is_missing():
        return "triton is not installed; it comes with PyTorch for CUDA, ROCm and XPU"
    if is_interpreted():
        return None
    if not any(torch.get_device_module(kind).is_available() for kind in DEVICES):
        return "PyTorch finds no cuda or xpu device"
    return _too_old(device) or _no_driver()


def is_interpreted() -> bool:
    """Whether Triton runs kernels in Python, on the processor: slowly, and to look at them."""
    return os.environ.get("TRITON_INTERPRET") == "1"


@cache
def _is_missing() -> bool:
    return find_spec("triton") is None


@cache
def _too_old(device: torch.device | None) -> str | None:
    if not torch.cuda.is_available() or torch.version.hip or (device is not None and device.type != "cuda"):
        return None
    major, minor = torch.cuda.get_device_capability(device)
    return None if major >= 8 else f"the GPU has compute capability {major}.{minor}; the kernels are built for 8.0"


@cache
def _no_driver() -> str | None:
    """Triton compiles a part of its driver in C when it starts, which is when a missing compiler shows."""
    try:
        triton = import_module("triton")
        if TorchVersion(triton.__version__) < f"{OLDEST}.dev0":  # what comes before a release has its features
            return f"triton is {triton.__version__}; the kernels need {OLDEST} or later"
    except Exception as error:
        return f"triton is installed, and cannot be imported: {_first_line(error)}"
    try:
        triton.runtime.driver.active.get_current_target()
    except Exception as error:
        return (
            f"triton cannot start its driver, which takes a C compiler and the headers of Python: {_first_line(error)}"
        )
    return None


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0] or type(error).__name__


def attend(q: Tensor, k: Tensor, v: Tensor, bias: Bias, kernel_size: Size, normalize: str, border: str) -> Tensor:
    return _operators().attend(q, k, v, bias, kernel_size, normalize, border)


def attend_backward(
    g: Tensor, q: Tensor, k: Tensor, v: Tensor, bias: Bias, kernel_size: Size, normalize: str, border: str
) -> list[Tensor]:
    return _operators().attend_backward(g, q, k, v, bias, kernel_size, normalize, border)


def assemble(v: Tensor, w: Tensor, kernel_size: Size, groups: int) -> Tensor:
    return _operators().assemble(v, w, kernel_size, groups)


def assemble_backward(g: Tensor, v: Tensor, w: Tensor, kernel_size: Size, groups: int) -> list[Tensor]:
    return _operators().assemble_backward(g, v, w, kernel_size, groups)


@cache
def _operators() -> Any:
    # triton is imported when a kernel is needed, as it takes time and need not be there
    return import_module("sapa.backends.triton.operators")
