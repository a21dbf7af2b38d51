"""How a call is launched, decided once for all calls that look alike: deciding takes longer than launching."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import triton.language as tl
from torch import Tensor
from triton.backends.compiler import GPUTarget

from sapa.backends.triton.fit import ALIGNED, Meta, Sizes, Work, ceil, meta_of, neighbours, steps
from sapa.backends.triton.table import INTERPRETED, TILES
from sapa.geometry import memory_format

INT32 = 2**31


@dataclass
class Plan:
    """The tiles that may be taken, what a kernel is told besides, and how many programs a tile asks for."""

    candidates: list[Meta]
    constants: dict[str, Any]
    programs: Callable[[Meta], tuple[int]]
    chosen: Meta | None = None  # of the candidates, or smaller than they are


def plan_of(
    name: str,
    kernel: Any,
    maps: Mapping[str, Tensor],
    arguments: Mapping[str, Any],
    *,
    sizes: Sizes,
    owns: str,
    is_cut: bool,
    target: GPUTarget | None,
) -> Plan:
    """For a launch with these arguments; there is no target in the interpreter."""
    main, C, D = next(iter(maps.values())), arguments["C"], arguments.get("D")
    layouts = ["channels_last" if memory_format(x) is torch.channels_last else "planar" for x in maps.values()]
    is_large, is_double = needs_int64([*maps.values(), *arguments.values()], sizes), main.dtype == torch.float64
    (H, W, low_h, low_w), (SY, SX) = sizes[:4], steps(sizes)
    times = len(main) * arguments.get("G", 1)
    work = Work(
        *(ceil(H, low_h) * ceil(W, low_w), low_h * low_w, C, D, neighbours(SX, layouts[0]), layouts[0], owns),
        extras=(arguments.get("rows") is not None) + (arguments.get("NORMALIZE") == "softplus"),
        is_uneven=SX == 0,
        is_ragged=layouts[0] == "planar" and low_w % ALIGNED != 0,
        is_mixed=len(set(layouts)) > 1,
        is_large=is_large,
        is_half=main.dtype.itemsize == 2,
        is_double=is_double,
        taps=sizes[4] * sizes[5] if "T" in kernel.arg_names else None,
        times=times,
    )
    tiles = (INTERPRETED,) if target is None else TILES[name][layouts[0]]
    metas = [meta_of(tile, kernel, work, target) for tile in tiles]
    constants = {f"{name}_strides": x.stride() for name, x in maps.items()} | {"sizes": sizes, "SY": SY, "SX": SX}
    constants |= {} if work.T is None else {"T": work.T}
    constants |= {"INDEX": tl.int64 if is_large else tl.int32, "ACC": tl.float64 if is_double else tl.float32}
    programs = partial(programs_of, work, is_cut)
    return Plan([meta for n, meta in enumerate(metas) if meta not in metas[:n]], constants, programs)


def programs_of(work: Work, is_cut: bool, meta: Meta) -> tuple[int]:
    """For each sample and group, blocks of cells, those that share one, and those that its channels are cut into."""
    shared = meta.get("sharing", 1) * meta.get("cutting", 1)
    return (work.times * ceil(work.cells, meta["N"]) * shared * (ceil(work.C, meta["BC"]) if is_cut else 1),)


def needs_int64(maps: list[Any], sizes: Sizes) -> bool:
    """Whether an offset inside a sample, or a number on the way to a point, may not fit 32 bits."""
    H, W, low_h, low_w = sizes[:4]
    # of a map the place of a sample is always of 64 bits; the tables of a bias have two dimensions
    reach = [
        sum((n - 1) * abs(step) for n, step in zip(x.shape[-3:], x.stride()[-3:], strict=True))
        for x in maps
        if isinstance(x, Tensor)
    ]
    return max(*reach, 2 * H * (low_h + 1) + low_h, 2 * W * (low_w + 1) + low_w) >= INT32
