"""Times the tiles of a kernel against each other, if asked to: SAPA_TUNE=1 in the environment.

Without it the first tile of the table is taken: nothing waits for the device, and sums are made in the same order on
every run. Tuning measures each kernel once for a shape, waits for the device meanwhile, and keeps what it found on
disk beside Triton's compiled kernels. Nothing can be measured while a CUDA graph is captured: a shape that was tuned
before takes the tile it has found, any other the first.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import torch
import triton

from sapa.backends.triton import is_interpreted
from sapa.backends.triton.fit import Meta

KEY = ("C", "D", "G", "sizes")

_tuned: dict[tuple[Any, ...], Meta] = {}  # what was found in this process


def run(
    kernel: Any, candidates: Sequence[Meta], grid: Callable[[Meta], tuple[int]], arguments: Mapping[str, Any]
) -> None:
    """Launch with the constants of the best candidate that is known."""
    if len(candidates) == 1 or not is_tuning():
        kernel[grid](**arguments, **candidates[0])
        return
    choices = tuple(tuple(meta.items()) for meta in candidates)
    shape = tuple(arguments[name] for name in KEY if name in kernel.arg_names)
    kinds = tuple((x.dtype, x.device) for x in arguments.values() if isinstance(x, torch.Tensor))
    key = (kernel, choices, shape, kinds)
    if key not in _tuned and not is_capturing():
        tuner = _tuner(kernel, choices)
        tuner[grid](**arguments)
        _tuned[key] = tuner.best_config.all_kwargs()
        return
    kernel[grid](**arguments, **_tuned.get(key, candidates[0]))


def is_tuning() -> bool:
    """Whether to measure: asked to, with a driver there."""
    return os.environ.get("SAPA_TUNE") == "1" and not is_interpreted()


def is_capturing() -> bool:
    return torch.cuda.is_available() and torch.cuda.is_current_stream_capturing()


@cache
def _tuner(kernel: Any, candidates: tuple[tuple[tuple[str, Any], ...], ...]) -> Any:
    configs = []
    for meta in map(dict, candidates):
        options = {name: meta.pop(name) for name in ("num_warps", "maxnreg") if name in meta}
        configs.append(triton.Config(meta, **options))
    return triton.autotune(configs, key=[name for name in KEY if name in kernel.arg_names], cache_results=True)(kernel)
