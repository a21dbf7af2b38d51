"""From tensors to launches: what a kernel is told about its maps, and how large the tiles of a program are."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from sapa.backends.triton import is_interpreted
from sapa.backends.triton.table import INTERPRETED, TILES, Tile
from sapa.backends.triton.tune import launcher
from sapa.geometry import Size, memory_format, size_of

Sizes = tuple[int, int, int, int, int, int]  # H, W, low_h, low_w, Kh, Kw
Meta = dict[str, Any]

MOST_PHASES = 16  # points of a cell that one program holds
MOST_REGISTERS = 255  # that a thread of an NVIDIA GPU can have
INT32 = 2**31


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
    H, W, low_h, low_w = sizes[:4]
    phases = -(-H // low_h) * -(-W // low_w)
    is_large, is_double = needs_int64(maps.values(), sizes), main.dtype == torch.float64
    types = {"INDEX": tl.int64 if is_large else tl.int32, "ACC": tl.float64 if is_double else tl.float32}
    vendor = vendor_of(main.device)
    is_usual = phases == 4 and not is_large and not is_double and arguments.get("rows") is None
    candidates = [
        meta_of(tile, kernel, phases, low_h * low_w, C, D, vendor, is_usual) for tile in tiles_for(name, main)
    ]

    def grid(meta: Meta) -> tuple[int]:
        parts = triton.cdiv(phases, meta["U"]) if owns == "points" else 1
        return (len(main) * triton.cdiv(low_h * low_w, meta["N"]) * parts * blocks(meta),)

    run, meta = launcher(kernel, candidates)
    strides = {f"{name}_strides": x.stride() for name, x in maps.items()}
    dims = {"C": C} if D is None else {"C": C, "D": D}
    with on_device_of(main):
        run[grid](**maps, **strides, **arguments, **dims, sizes=sizes, **types, **meta)


def tiles_for(name: str, x: Tensor) -> tuple[Tile, ...]:
    if is_interpreted():
        return (INTERPRETED,)
    return TILES[name]["channels_last" if memory_format(x) is torch.channels_last else "planar"]


@cache
def vendor_of(device: torch.device) -> str:
    if device.type != "cuda":
        return device.type
    return "nvidia" if torch.version.hip is None else "amd"


def meta_of(
    tile: Tile, kernel: Any, phases: int, cells: int, C: int, D: int | None, vendor: str, is_usual: bool
) -> Meta:
    """The constants of a kernel for this tile, cut down to the problem: where channels are few, cells are more."""
    U = min(MOST_PHASES, triton.next_power_of_2(phases))
    BC = min(tile.BC, triton.next_power_of_2(C))
    BD = min(tile.BD, triton.next_power_of_2(C if D is None else D))
    spare = tile.BC // BC if D is None else min(tile.BC // BC, tile.BD // BD)
    N = min(max(1, spare * tile.points // U), triton.next_power_of_2(cells))
    found = {"U": U, "N": N, "BC": BC, "BD": BD, "ONE_C": C <= BC, "ONE_D": D is not None and D <= BD}
    # a warp of AMD's data centre GPUs has 64 threads
    options = {"num_warps": tile.warps // 2 if vendor == "amd" else tile.warps}
    if vendor == "nvidia":
        options["maxnreg"] = tile.registers if is_usual else min(2 * tile.registers, MOST_REGISTERS)
    return {key: value for key, value in found.items() if key in kernel.arg_names} | options


def needs_int64(maps: Any, sizes: Sizes) -> bool:
    """Whether an offset inside a sample, or a number on the way to a point, may not fit 32 bits."""
    H, W, low_h, low_w = sizes[:4]
    reach = [sum((n - 1) * abs(step) for n, step in zip(x.shape[1:], x.stride()[1:], strict=True)) for x in maps]
    return max(*reach, 2 * H * (low_h + 1) + low_h, 2 * W * (low_w + 1) + low_w) >= INT32


def on_device_of(x: Tensor) -> AbstractContextManager[Any]:
    """Triton launches on the current stream of the current device."""
    return nullcontext() if x.device.type == "cpu" else torch.get_device_module(x.device).device(x.device)


def sizes_of(high: Tensor, low: Tensor, kernel_size: Size) -> Sizes:
    return (*size_of(high), *size_of(low), *kernel_size)


def empty(shape: tuple[int, ...], like: Tensor) -> Tensor:
    layout = memory_format(like)
    return torch.empty(shape, dtype=like.dtype, device=like.device, memory_format=layout)
