"""Times the tiles of a kernel against each other, if asked to: SAPA_TUNE=1 in the environment.

Without it the first tile of the table is taken: nothing waits for the device, and sums are made in the same order on
every run. Tuning measures each kernel once for a shape, waits for the device meanwhile, and keeps what it found on
disk beside Triton's compiled kernels.
"""

import os
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import torch
import triton

from sapa.backends.triton import is_interpreted

KEY = ("C", "D", "G", "sizes")
Meta = Mapping[str, Any]


def is_tuning() -> bool:
    """Whether to measure: asked to, with a driver there, and not while a CUDA graph is recorded."""
    if os.environ.get("SAPA_TUNE") != "1" or is_interpreted():
        return False
    return not (torch.cuda.is_available() and torch.cuda.is_current_stream_capturing())


def launcher(kernel: Any, candidates: Sequence[Meta]) -> tuple[Any, Meta]:
    """What to launch, and the constants to launch it with; with tuning, the constants are the tuner's to choose."""
    if len(candidates) == 1 or not is_tuning():
        return kernel, candidates[0]
    return _tuner(kernel, tuple(tuple(meta.items()) for meta in candidates)), {}


@cache
def _tuner(kernel: Any, candidates: tuple[tuple[tuple[str, Any], ...], ...]) -> Any:
    configs = []
    for meta in map(dict, candidates):
        options = {name: meta.pop(name) for name in ("num_warps", "maxnreg") if name in meta}
        configs.append(triton.Config(meta, **options))
    return triton.autotune(configs, key=[name for name in KEY if name in kernel.arg_names], cache_results=True)(kernel)
