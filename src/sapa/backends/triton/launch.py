"""From tensors to launches: what a kernel is told about its maps."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.backends.compiler import GPUTarget
from triton.runtime import driver

from sapa.backends.triton import DEVICES, is_interpreted
from sapa.backends.triton.fit import ALIGNED, Meta, Sizes, Work, meta_of, neighbours, steps
from sapa.backends.triton.table import INTERPRETED, TILES
from sapa.backends.triton.tune import run
from sapa.checks import describe
from sapa.geometry import Size, memory_format, size_of

INT32 = 2**31
MOST_CELLS = INT32 - 2**16  # so that they fit 32 bits also when they are rounded up to whole blocks


def launch(
    name: str,
    kernel: Any,
    maps: Mapping[str, Tensor],
    *,
    sizes: Sizes,
    owns: str,
    blocks: Callable[[Meta], int],
    C: int,
    D: int | None = None,
    **arguments: Any,
) -> None:
    """Run a kernel of the table on its maps, given by their names; the memory format of the first decides the tile.

    Its programs own high-res "points" or low-res "cells", and `blocks` says how many share those: blocks of channels,
    or groups. The rest is passed on.
    """
    main = next(iter(maps.values()))
    if not len(main):
        return
    layouts = ["channels_last" if memory_format(x) is torch.channels_last else "planar" for x in maps.values()]
    is_large, is_double = needs_int64([*maps.values(), *arguments.values()], sizes), main.dtype == torch.float64
    types = {"INDEX": tl.int64 if is_large else tl.int32, "ACC": tl.float64 if is_double else tl.float32}
    (H, W, low_h, low_w), (SY, SX) = sizes[:4], steps(sizes)
    work = Work(
        *(-(-H // low_h) * -(-W // low_w), low_h * low_w, C, D, neighbours(SX, layouts[0]), layouts[0], owns),
        extras=(arguments.get("rows") is not None) + (arguments.get("NORMALIZE") == "softplus"),
        is_uneven=SX == 0,
        is_ragged=layouts[0] == "planar" and low_w % ALIGNED != 0,
        is_mixed=len(set(layouts)) > 1,
        is_large=is_large,
        is_double=is_double,
    )

    def grid(meta: Meta) -> tuple[int]:
        parts = triton.cdiv(work.phases // work.V, meta["U"]) if owns == "points" else 1
        return (len(main) * triton.cdiv(work.cells, meta["N"]) * parts * blocks(meta),)

    strides = {f"{name}_strides": x.stride() for name, x in maps.items()}
    numbers = {"C": C, "sizes": sizes, "SY": SY, "SX": SX} | ({} if D is None else {"D": D})
    with on_device_of(main):
        tiles = (INTERPRETED,) if is_interpreted() else TILES[name][layouts[0]]
        metas = [meta_of(tile, kernel, work, target_of(main.device)) for tile in tiles]
        candidates = [meta for n, meta in enumerate(metas) if meta not in metas[:n]]
        run(kernel, candidates, grid, {**maps, **strides, **arguments, **numbers, **types})


@cache
def target_of(device: torch.device) -> GPUTarget | None:
    """What Triton compiles for on this device, which is the current one; nothing in the interpreter."""
    return None if is_interpreted() else driver.active.get_current_target()


def needs_int64(maps: list[Any], sizes: Sizes) -> bool:
    """Whether an offset inside a sample, or a number on the way to a point, may not fit 32 bits."""
    H, W, low_h, low_w = sizes[:4]
    reach = [
        sum((n - 1) * abs(step) for n, step in zip(x.shape[1:], x.stride()[1:], strict=True))
        for x in maps
        if isinstance(x, Tensor)
    ]
    return max(*reach, 2 * H * (low_h + 1) + low_h, 2 * W * (low_w + 1) + low_w) >= INT32


def on_device_of(x: Tensor) -> AbstractContextManager[Any]:
    """Triton launches on the current stream of the current device."""
    return torch.get_device_module(x.device).device(x.device) if x.device.type in DEVICES else nullcontext()


def sizes_of(function: str, high: Tensor, kernel_size: Size, **low: Tensor) -> Sizes:
    """The sizes of a call, with the low-res map given by its name."""
    ((name, x),) = low.items()
    h, w = size_of(x)
    if h * w > MOST_CELLS:
        raise ValueError(
            f"{function}: {describe(name, x, 'B C h w')}: {h * w} low-res points, which the Triton kernels count in "
            f"32 bits, to {MOST_CELLS}. Cut the maps into strips, or call it under sapa.use_backend('reference')."
        )
    return (*size_of(high), h, w, *kernel_size)


def empty(shape: tuple[int, ...], like: Tensor) -> Tensor:
    layout = memory_format(like)
    return torch.empty(shape, dtype=like.dtype, device=like.device, memory_format=layout)
