"""How the tiles of the table are cut to a problem and to a GPU: the constants a kernel is compiled with."""

from dataclasses import dataclass
from typing import Any

import triton
from triton.backends.compiler import GPUTarget

from sapa.backends.triton.options import ALL_REGISTERS, WARP, ceil, options_of
from sapa.backends.triton.table import Gathering, Share, Tile
from sapa.backends.triton.window import WHOLE

Sizes = tuple[int, int, int, int, int, int]  # H, W, low_h, low_w, Kh, Kw
Meta = dict[str, Any]

FEWEST = 16  # of what products are summed over: channels of a block, numbers of a window
LARGEST_WINDOW = 512  # that is grown for more points
MOST_POINTS = 256  # of a program
MANY_POINTS = 64  # to a power of two
HELD = 16  # numbers of a window that a thread has in shared memory
ENOUGH = 2**16  # threads, half of what a large GPU runs at once: up to there, programs share the channels of points


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
    is_planar: bool = False  # whether numbers of a window lie side by side

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


def meta_of(tile: Tile | Gathering, kernel: Any, work: Work, target: GPUTarget | None) -> Meta:
    """The constants of a kernel for this tile."""
    least = target.warp_size if target and target.backend == "hip" else WARP
    found = of_cells(tile, work) if isinstance(tile, Gathering) else of_points(tile, work, least)
    options = options_of(found["threads"], tile.registers, target)
    return {key: value for key, value in found.items() if key in kernel.arg_names} | options


def of_points(tile: Tile, work: Work, least: int) -> Meta:
    """A program that makes points: of a few cells, or of a part of one that is too large."""
    N, T = strip(work, tile.points)
    most_threads = ALL_REGISTERS // tile.registers
    most = max(1, min(MOST_POINTS, most_threads * share_of(tile, work, N).taps // T))
    while work.points(N) > most and N > 1:
        N //= 2
    M = min(most, triton.next_power_of_2(work.points(N)))
    sums, taps = share_of(tile, work, N)
    threads = min(most_threads, max(least, M * T // taps))
    # a thread keeps no more of a window than there is shared memory for
    held = threads * HELD * 4 // (max(4, work.itemsize) * min(T, WHOLE.value))
    BC, BD = block(min(held, threads * sums // M), work.C), block(depth_of(tile, work, N, threads), work.D or 1)
    at_once = threads * work.strips(N) * ceil(work.points(N), M)
    while at_once * ceil(work.C, BC) < ENOUGH and BC > FEWEST:
        BC //= 2
    cutting = min(ceil(work.C, BC), ceil(ENOUGH, at_once))
    is_shallow = (work.D or 0) <= BD and WHOLE.value >= T
    found = {"M": M, "N": N, "COLUMNS": columns_of(work, N, T), "T": T, "BC": BC, "BD": BD}
    return found | {"IS_SHALLOW": is_shallow, "cutting": cutting, "threads": threads}


def share_of(tile: Tile, work: Work, N: int) -> Share:
    """What a thread has of a program with N cells."""
    if N > 1:
        share = tile.strip
    elif is_special(work):
        share = tile.special
    else:
        share = tile.large if has_many_points(work, N) and not is_deep(tile, work) else tile.cell
        if work.is_planar:  # and loads take more registers
            share = share._replace(sums=share.sums // 2)
    # double numbers take two registers, and a block of channels as much shared memory as twice as many
    return Share(max(1, share.sums // 4), share.taps // 2) if work.itemsize == 8 else share


def depth_of(tile: Tile, work: Work, N: int, threads: int) -> int:
    """How many embedding channels at a time.

    Fewer of double numbers, and of a cell whose keys are not kept or that has more to know; more of a large one, but
    where all threads together would have no key each.
    """
    if work.itemsize == 8 or (N == 1 and (is_special(work) or is_deep(tile, work))):
        return tile.BD // 2
    is_longer = not tile.keeps_keys and has_many_points(work, N) and threads < ALL_REGISTERS // tile.registers
    return 2 * tile.BD if is_longer else tile.BD


def has_many_points(work: Work, N: int) -> bool:
    """Whether a window is little of what a program loads."""
    return triton.next_power_of_2(work.points(N)) >= MANY_POINTS


def is_special(work: Work) -> bool:
    """Whether there is more to know about each point: a bias, or which they are, as cells differ."""
    return work.has_bias or steps(work.sizes) == (0, 0)


def is_deep(tile: Tile, work: Work) -> bool:
    """Whether keys that are wanted again take more than a block."""
    return tile.keeps_keys and (work.D or 0) > tile.BD * 4 // max(4, work.itemsize)


def columns_of(work: Work, N: int, T: int) -> int:
    """Of a window: one more than it needs, if there is room, and if it loads enough for it to matter that in pairs."""
    Kh, Kw = work.sizes[4:]
    columns = N + Kw - 1
    is_odd = N == 1 and columns % 2 == 1
    is_wider = work.is_planar and is_odd and Kh * (columns + 1) <= T and not has_many_points(work, N)
    return columns + is_wider


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


def of_cells(tile: Gathering, work: Work) -> Meta:
    """A program that gathers what belongs to low-res points, so many high-res points at a time."""
    low_w, Kw = work.sizes[3], work.sizes[5]
    N = min(tile.cells, triton.next_power_of_2(low_w))
    M = max(FEWEST, min(tile.points, triton.next_power_of_2(work.points(N + Kw - 1))))
    is_double = work.itemsize == 8
    BC = block(tile.BC // 2 if is_double else tile.BC, work.C)
    threads = max(2 * WARP, N * BC // (tile.sums // 2 if is_double else tile.sums))
    while threads * work.strips(N) * ceil(work.C, BC) < ENOUGH and BC > FEWEST:
        BC //= 2
    return {"M": M, "N": N, "BC": BC, "threads": threads}


def block(most: int, size: int) -> int:
    """Of this many channels."""
    return max(FEWEST, min(most, triton.next_power_of_2(size)))
