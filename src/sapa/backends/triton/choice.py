"""Which tile a kernel is launched with: one that does not spill, or the fastest if asked to measure.

The first tile of the table is taken, and cut until the compiler keeps everything in registers. That depends on no
measurement: nothing waits for the device, and sums are made in the same order on every run. SAPA_TUNE=1 in the
environment lets the tiles compete instead: each kernel is measured once for a shape, which waits for the device, and
what was found is kept on disk beside Triton's compiled kernels. Nothing can be measured while a CUDA graph is
captured: a shape that was tuned before takes the tile it has found, any other the first.
"""

import os
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import torch
import triton
from triton import OutOfResources
from triton.runtime.errors import PTXASError

from sapa.backends.triton import is_interpreted
from sapa.backends.triton.fit import Meta
from sapa.backends.triton.plan import Plan

KEY = ("C", "D", "G", "sizes")
FEWEST_CHANNELS = 16


def choose(kernel: Any, plan: Plan, arguments: Mapping[str, Any]) -> Meta:
    """The constants for a plan, which keeps them."""
    first = plan.candidates[0]
    is_contest = len(plan.candidates) > 1 and is_tuning()
    if is_contest and not is_capturing():
        tuner = _tuner(kernel, tuple(tuple(meta.items()) for meta in plan.candidates))
        tuner[plan.programs](**arguments)
        plan.chosen = meta = tuner.best_config.all_kwargs()
        return meta
    meta = first if is_interpreted() else without_spills(kernel, first, plan, arguments)
    if not is_contest:
        plan.chosen = meta
    return meta


def without_spills(kernel: Any, first: Meta, plan: Plan, arguments: Mapping[str, Any]) -> Meta:
    """This tile, or the first smaller one whose registers suffice, or the smallest."""
    meta = first
    for meta in smaller(first):
        try:
            if not spills(kernel.run(grid=plan.programs, warmup=True, **arguments, **meta)):
                break
        except (OutOfResources, PTXASError):
            continue
    return meta


def smaller(meta: Meta) -> Iterator[Meta]:
    """A tile, and what is left of it by halves: fewer cells, then fewer channels of one, and only then a part of it."""
    yield meta
    for name, least in (("N", 1), ("BC", FEWEST_CHANNELS), ("U", 1)):
        # of a block that has all channels, the kernel was told so
        while meta[name] > least and not (name == "BC" and meta.get("ONE_C")):
            meta = meta | {name: meta[name] // 2}
            yield meta


def spills(compiled: Any) -> int:
    """Registers that a kernel keeps in memory, as the driver says when it loads it."""
    _ = compiled.run  # loads it
    return compiled.n_spills


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
