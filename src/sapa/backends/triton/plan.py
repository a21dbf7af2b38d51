"""How a call is launched, decided once for all calls that look alike: deciding takes longer than launching."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import triton.language as tl
from torch import Tensor
from triton.backends.compiler import GPUTarget

from sapa.backends.triton.fit import Meta, Sizes, Work, meta_of, steps
from sapa.backends.triton.options import ceil
from sapa.backends.triton.table import INTERPRETED, TILES

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
    target: GPUTarget | None,
) -> Plan:
    """For a launch with these arguments; there is no target in the interpreter."""
    main, (SY, SX) = next(iter(maps.values())), steps(sizes)
    is_large = needs_int64([*maps.values(), *arguments.values()], sizes)
    work = Work(
        *(sizes, arguments["C"], arguments.get("D"), owns, main.dtype.itemsize),
        has_bias=arguments.get("rows") is not None,
        times=len(main) * arguments.get("G", 1),
        is_planar="v" in maps and maps["v"].stride(-1) == 1,
    )
    tiles = (INTERPRETED[owns],) if target is None else TILES[name]
    metas = [meta_of(tile, kernel, work, target) for tile in tiles]
    constants = {f"{name}_strides": x.stride() for name, x in maps.items()} | {"sizes": sizes}
    constants |= {"SY": SY, "SX": SX, "KH": sizes[4], "KW": sizes[5]}
    constants |= {
        "INDEX": tl.int64 if is_large else tl.int32,
        "ACC": tl.float64 if main.dtype.itemsize == 8 else tl.float32,
    }
    candidates = [meta for n, meta in enumerate(metas) if meta not in metas[:n]]
    return Plan(candidates, constants, partial(programs_of, name, work))


def programs_of(name: str, work: Work, meta: Meta) -> tuple[int]:
    """For each strip, the parts of its points, and those that share its channels; or blocks of channels."""
    strips = work.strips(meta["N"])
    if work.owns == "cells":
        programs = strips * ceil(work.C, meta["BC"])
    else:
        programs = strips * ceil(work.points(meta["N"]), meta["M"]) * meta.get("cutting", 1)
    # AMD counts threads
    if programs >= INT32 or ("waves_per_eu" in meta and programs * 64 * meta["num_warps"] >= 2 * INT32):
        raise ValueError(
            f"the Triton kernel '{name}' would take {programs} programs for {work.times} samples and groups of "
            f"{work.sizes[2]} x {work.sizes[3]} low-res points, more than a GPU launches at once. Call it on fewer "
            f"samples, cut the maps into strips, or call it under sapa.use_backend('reference')."
        )
    return (programs,)


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
