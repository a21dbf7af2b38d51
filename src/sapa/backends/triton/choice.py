"""Which tile a kernel is launched with: one that does not spill, or the fastest if asked to measure.

Of the tiles of the table that is the first for which the compiler keeps everything in registers; where there is none,
the first is cut until it does. That depends on no measurement: nothing waits for the device, and sums are made in the
same order on every run. Where two fit, as for `attend`, SAPA_TUNE=1 in the environment lets them compete: they are
measured once for a shape, which waits for the device, and what was found is kept on disk beside Triton's compiled
kernels. Nothing can be measured while a graph is captured: there, a shape that this process has tuned takes the tile it
has found, any other the first that fits.
"""

import math
import os
from collections.abc import Iterator, Mapping
from functools import cache
from threading import Lock
from typing import Any

import torch
import triton
from triton import CompilationError, OutOfResources
from triton.runtime import errors

from sapa.backends.triton import DEVICES, is_interpreted
from sapa.backends.triton.fit import FEWEST, Meta
from sapa.backends.triton.options import most_warps
from sapa.backends.triton.plan import Plan
from sapa.backends.triton.table import FORWARD

# of the compiler, and of Intel's, which not every Triton has
REFUSALS = (errors.PTXASError, OutOfResources, getattr(errors, "IntelGPUError", OutOfResources))
KEY = ("C", "D", "G", "sizes")

_tuned: dict[tuple[Any, ...], Meta] = {}  # what was found in this process
_choosing = Lock()  # Triton loads and tunes a kernel in one thread at a time
_refused: set[Any] = set()  # kernels that the device has not taken; Triton says so only once


def choose(kernel: Any, plan: Plan, arguments: Mapping[str, Any]) -> Meta:
    """The constants for a plan, which keeps them unless a recording had to do without a measurement."""
    with _choosing:
        if plan.chosen is not None:
            return plan.chosen
        try:
            if len(plan.candidates) > 1 and is_tuning():
                return _fastest(kernel, plan, arguments)
            plan.chosen = next(fitting(kernel, plan, arguments))
            return plan.chosen
        except Exception as error:
            if not is_capturing() or isinstance(error, CompilationError):
                raise
            raise RuntimeError(
                "a graph is being recorded, which takes only kernels that are loaded: before the recording, make the "
                "same call once, on maps of the same sizes, strides and types, forward and backward if both are in it"
            ) from error


def _fastest(kernel: Any, plan: Plan, arguments: Mapping[str, Any]) -> Meta:
    shape = tuple(arguments[name] for name in KEY if name in kernel.arg_names)
    kinds = tuple((x.dtype, x.device) for x in arguments.values() if isinstance(x, torch.Tensor))
    key = (kernel, tuple(tuple(meta.items()) for meta in plan.candidates), shape, kinds)
    if key not in _tuned:
        if is_capturing():
            return next(fitting(kernel, plan, arguments))
        # of two that fit, a tuner remembers which it was for a shape, and does not ask on which device
        tuner = _tuner(kernel, tuple(tuple(meta.items()) for meta in fitting(kernel, plan, arguments)), kinds[0][1])
        tuner[plan.programs](**arguments)
        _tuned[key] = tuner.best_config.all_kwargs()
    plan.chosen = _tuned[key]
    return plan.chosen


def fitting(kernel: Any, plan: Plan, arguments: Mapping[str, Any]) -> Iterator[Meta]:
    """The tiles that do not spill; or else the first smaller one that does not, or the one that spills least."""
    if is_interpreted():
        yield plan.candidates[0]
        return

    def spilled(meta: Meta) -> float:
        try:
            return spills(kernel.run(grid=plan.programs, warmup=True, **arguments, **meta))
        except REFUSALS:
            return math.inf

    tried = []
    for meta in plan.candidates:
        tried.append((spilled(meta), meta))
        if not tried[-1][0]:
            yield meta
    if all(spilling for spilling, _ in tried):
        for meta in smaller(plan.candidates[0]):
            tried.append((spilled(meta), meta))
            if not tried[-1][0]:
                break
        yield min(tried, key=lambda one: one[0])[1]


def smaller(meta: Meta) -> Iterator[Meta]:
    """With half the channels; with twice the threads; with these and, by halves, less of all else; at last, no cap."""
    halved = meta | {"BC": meta["BC"] // 2} if "T" in meta and meta["BC"] > FEWEST else None
    if halved:
        yield halved
    if 2 * meta["num_warps"] <= most_warps(meta):
        meta = meta | {"num_warps": 2 * meta["num_warps"]}
        if "maxnreg" in meta:
            # what a GPU with fewer threads gives each besides may not go into whole blocks of more
            meta["maxnreg"] = meta["maxnreg"] // FORWARD * FORWARD
        yield meta
    else:
        meta = halved or meta
    # keys that are kept for dq are loaded once, as long as a block has all of their channels
    blocks = ("BC", "BD") if meta.get("IS_SHALLOW") else ("BD", "BC")
    # the high-res points of a gathering program are what its products are summed over: it gives up cells
    for name, least in ((blocks[0], FEWEST), (blocks[1], FEWEST), ("M" if "T" in meta else "N", 1)):
        while meta.get(name, 0) > least:
            meta = meta | {name: meta[name] // 2}
            if name == "BD" and "IS_SHALLOW" in meta:
                meta["IS_SHALLOW"] = False
            yield meta
    if "maxnreg" in meta:
        yield {name: value for name, value in meta.items() if name != "maxnreg"}


def spills(compiled: Any) -> float:
    """Registers that a kernel keeps in memory, as the driver says when it loads it; infinitely many if it does not."""
    if compiled not in _refused:
        try:
            _ = compiled.run  # loads it
            return compiled.n_spills
        except REFUSALS:
            _refused.add(compiled)
    return math.inf


def is_tuning() -> bool:
    """Whether to measure: asked to, with a driver there."""
    return os.environ.get("SAPA_TUNE") == "1" and not is_interpreted()


def is_capturing() -> bool:
    modules = [torch.get_device_module(kind) for kind in DEVICES]
    # of older versions of PyTorch, XPU has no graphs
    return any(m.is_available() and getattr(m, "is_current_stream_capturing", lambda: False)() for m in modules)


@cache
def _tuner(kernel: Any, candidates: tuple[tuple[tuple[str, Any], ...], ...], device: torch.device) -> Any:
    """One for each device."""
    configs = []
    for meta in map(dict, candidates):
        options = {name: meta.pop(name) for name in ("num_warps", "num_stages", "maxnreg") if name in meta}
        configs.append(triton.Config(meta, **options))
    return triton.autotune(configs, key=[name for name in KEY if name in kernel.arg_names], cache_results=True)(kernel)
