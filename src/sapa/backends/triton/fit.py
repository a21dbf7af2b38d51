"""How the tiles of the table are cut to a problem and to a GPU: the constants a kernel is compiled with."""

from dataclasses import dataclass, replace
from typing import Any

import triton
from triton.backends.compiler import GPUTarget

from sapa.backends.triton.table import Tile
from sapa.backends.triton.window import WHOLE

Sizes = tuple[int, int, int, int, int, int]  # H, W, low_h, low_w, Kh, Kw
Meta = dict[str, Any]

FEWEST = 16  # of what products are summed over: channels of a block, numbers of a window
LARGEST_WINDOW = 512  # that is grown for more points
MOST_POINTS = 256  # of a program
MOST_TAPS = 8  # numbers of windows of a thread
FUSED = {"enable_fp_fusion": True}  # a product and a sum in one instruction, which is not the default of every Triton
ALL_REGISTERS = 65536  # of a multiprocessor; a program may take them all
FEWER_THREADS = (86, 87, 89, 120, 121)  # at once, by a quarter, on GPUs that are not made for data centres
ENOUGH = 2**17  # threads, about as many as a large GPU runs at once: up to there, programs share the channels of points


@dataclass(frozen=True)
class Work:
    """What a kernel has to do."""

    sizes: Sizes
    C: int
    D: int | None = None
    owns: str = "points"  # what a program makes: high-res points, or low-res "cells"
    itemsize: int = 4
    has_bias: bool = False
    times: int = 1  # samples and groups

    def points(self, cells: int) -> int:
        """How many points so many cells of a row have: at most, where cells differ."""
        H, W, low_h, low_w = self.sizes[:4]
        SY, SX = steps(self.sizes)
        return SY * SX * cells if SX else ceil(H, low_h) * ceil(cells * W, low_w)

    def strips(self, N: int) -> int:
        return self.times * self.sizes[2] * ceil(self.sizes[3], N)


def steps(sizes: Sizes) -> tuple[int, int]:
    """High-res points of a cell, down and right; 0 where the ratio is not whole, as cells differ."""
    H, W, low_h, low_w = sizes[:4]
    return (H // low_h, W // low_w) if H % low_h == 0 and W % low_w == 0 else (0, 0)


def meta_of(tile: Tile, kernel: Any, work: Work, target: GPUTarget | None) -> Meta:
    """The constants of a kernel for this tile."""
    tile = for_work(tile, work)
    found = (of_cells if work.owns == "cells" else of_points)(tile, work)
    options = options_of(found["warps"], tile.registers, target)
    return {key: value for key, value in found.items() if key in kernel.arg_names} | options


def of_points(tile: Tile, work: Work) -> Meta:
    """A program that makes points: of a few cells, or of a part of one that is too large."""
    N, T = strip(work, tile.points)
    threads = ALL_REGISTERS // tile.registers
    most = max(1, min(MOST_POINTS, threads * MOST_TAPS // T))
    while work.points(N) > most and N > 1:
        N //= 2
    M = min(most, triton.next_power_of_2(work.points(N)))
    if N == 1:
        tile = replace(tile, BD=tile.BD * tile.alone, taps=tile.taps * tile.alone)
    BC, BD = block(tile.BC, work.C), block(tile.BD, work.D or 1)
    # a larger window or cell takes more threads; where they have more of it, they have fewer channels
    warps = min(threads // 32, max(tile.warps, M * T // (32 * tile.taps), M * BC // (32 * tile.each)))
    each = tile.each if 32 * warps * tile.taps >= M * T else tile.each // 2
    BC = max(FEWEST, min(BC, 32 * warps * each // M))
    cutting = min(ceil(work.C, BC), ceil(ENOUGH, 32 * warps * work.strips(N) * ceil(work.points(N), M)))
    is_shallow = (work.D or 0) <= BD and WHOLE.value >= T
    found = {"M": M, "N": N, "T": T, "BC": BC, "BD": BD, "IS_SHALLOW": is_shallow, "cutting": cutting}
    return found | {"warps": warps}


def strip(work: Work, least: int) -> tuple[int, int]:
    """How many cells of a row, and numbers of the window around them.

    To a power of two the window is no larger than that of one cell, unless they have too few points together.
    """
    low_w, Kh, Kw = work.sizes[3:]
    T = max(FEWEST, triton.next_power_of_2(Kh * Kw))
    while True:
        fitting = max(1, T // Kh - Kw + 1)
        N = min(1 << fitting.bit_length() - 1, triton.next_power_of_2(low_w))
        if work.points(N) >= least or 2 * T > LARGEST_WINDOW or low_w <= N:
            break
        T *= 2
    while N > 1 and work.points(N // 2) >= 2 * least:
        N //= 2
    return N, T


def of_cells(tile: Tile, work: Work) -> Meta:
    """A program that gathers what belongs to low-res points, so many high-res points at a time."""
    low_w, Kw = work.sizes[3], work.sizes[5]
    N = min(tile.cells, triton.next_power_of_2(low_w))
    M = max(FEWEST, min(tile.points, triton.next_power_of_2(work.points(N + Kw - 1))))
    BC = block(tile.BC, work.C)
    warps = max(tile.warps, N * BC // (32 * tile.each))
    while 32 * warps * work.strips(N) * ceil(work.C, BC) < ENOUGH and BC > FEWEST:
        BC //= 2
    return {"M": M, "N": N, "BC": BC, "warps": warps}


def for_work(tile: Tile, work: Work) -> Tile:
    """With less for a thread where each number takes more registers, or there is more to know about each point."""
    if work.itemsize == 8:
        tile = replace(tile, BC=tile.BC // 2, BD=tile.BD // 2, each=tile.each // 2, taps=tile.taps // 2)
    if work.has_bias or steps(work.sizes) == (0, 0):
        tile = replace(tile, taps=tile.taps // 2, alone=1)
    return tile


def block(most: int, size: int) -> int:
    """Of this many channels."""
    return max(FEWEST, min(most, triton.next_power_of_2(size)))


def ceil(n: int, size: int) -> int:
    # not triton.cdiv, which takes longer than all else here
    return -(-n // size)


def most_warps(meta: Meta) -> int:
    """What a multiprocessor has registers for, or a compute unit with its four SIMDs."""
    return ALL_REGISTERS // (32 * meta["maxnreg"]) if "maxnreg" in meta else 4 * meta.get("waves_per_eu", 4)


def options_of(warps: int, registers: int, target: GPUTarget | None) -> Meta:
    """What the compiler is told besides; there is no target in the interpreter."""
    if target is None:
        return {}
    options = {"num_warps": warps, "num_stages": 1}
    if target.backend == "hip":
        # a wave has 64 threads on AMD's data centre GPUs and 32 on the others
        waves = {"num_warps": max(1, warps * 32 // target.warp_size), "waves_per_eu": 256 // registers}
        return options | waves | FUSED
    if target.backend != "cuda":
        return options
    return options | FUSED | {"maxnreg": cap(registers, 32 * warps, target)}


def cap(registers: int, threads: int, target: GPUTarget) -> int:
    """Of a thread, so that whole blocks are as large a share of all threads as where they have so many registers."""
    wanted = ALL_REGISTERS // registers * (3 if target.arch in FEWER_THREADS else 4) // 4
    return ALL_REGISTERS // (ceil(wanted, threads) * threads) // 8 * 8
