"""From tensors to launches."""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor
from triton.backends.compiler import GPUTarget
from triton.runtime import driver

from sapa.backends.triton import DEVICES, is_interpreted
from sapa.backends.triton.choice import choose, is_tuning
from sapa.backends.triton.fit import Sizes
from sapa.backends.triton.options import ceil
from sapa.backends.triton.plan import INT32, Plan, plan_of
from sapa.backends.triton.table import CELLS
from sapa.checks import describe
from sapa.geometry import Size, memory_format, size_of

MOST = INT32 - 2**16  # cells, or points of a few: so that they fit 32 bits also when rounded up to whole blocks
CAPACITY = 1024
_plans: dict[tuple[object, ...], Plan] = {}  # from the oldest to the youngest


def launch(
    name: str,
    kernel: Any,
    maps: Mapping[str, Tensor],
    *,
    sizes: Sizes,
    owns: str = "points",
    **arguments: Any,
) -> None:
    """Run a kernel of the table on its maps, given by their names; what it sums in is decided by the type of the first.

    Its programs own high-res "points" or low-res "cells". The rest is passed on.
    """
    main = next(iter(maps.values()))
    if not len(main):
        return
    given = {**maps, **arguments}
    key = (name, sizes, main.device, is_tuning(), *map(_looks, given.values()))
    with on_device_of(main):
        plan = _plans.get(key)
        if plan is None:
            if len(_plans) >= CAPACITY:
                _plans.pop(next(iter(_plans.copy())), None)  # another thread may be here, too
            target = current_target()
            plan = plan_of(name, kernel, maps, arguments, sizes=sizes, owns=owns, target=target)
            _plans[key] = plan
        run(kernel, plan, given | plan.constants)


def run(kernel: Any, plan: Plan, arguments: Mapping[str, Any]) -> None:
    meta = plan.chosen or choose(kernel, plan, arguments)
    kernel[plan.programs(meta)](**arguments, **meta)


def _looks(x: Any) -> object:
    """What a plan sees of an argument, and the compiler: whether 16 divides its address; on AMD, how much is there."""
    if not isinstance(x, Tensor):
        return x
    is_short = torch.version.hip is not None and x.untyped_storage().nbytes() < INT32
    return x.shape, x.stride(), x.dtype, x.data_ptr() % 16, is_short


def current_target() -> GPUTarget | None:
    """What Triton compiles for on the current device; nothing in the interpreter."""
    return None if is_interpreted() else driver.active.get_current_target()


def on_device_of(x: Tensor) -> AbstractContextManager[Any]:
    """Triton launches on the current stream of the current device."""
    return torch.get_device_module(x.device).device(x.device) if x.device.type in DEVICES else nullcontext()


def sizes_of(function: str, high: Tensor, kernel_size: Size, **low: Tensor) -> Sizes:
    """The sizes of a call, with the low-res map given by its name."""
    ((name, x),) = low.items()
    (H, W), (h, w) = size_of(high), size_of(x)
    # a row of cells that a strip gathers from
    gathered = ceil(H, h) * ceil((CELLS + kernel_size[1] - 1) * W, w)
    for number, what in ((h * w, "low-res points"), (gathered, "high-res points around some of them")):
        if number > MOST:
            raise ValueError(
                f"{function}: {describe(name, x, 'B C h w')}: {number} {what}, which the Triton kernels count in "
                f"32 bits, to {MOST}. Cut the maps into strips, or call it under sapa.use_backend('reference')."
            )
    return (H, W, h, w, *kernel_size)


def empty(shape: tuple[int, ...], like: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    return torch.empty(shape, dtype=dtype or like.dtype, device=like.device, memory_format=memory_format(like))
