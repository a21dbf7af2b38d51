"""How the tiles of the table are cut to a problem and to a GPU: the constants a kernel is compiled with."""

import math
from dataclasses import dataclass, replace
from typing import Any

import triton
from triton.backends.compiler import GPUTarget

from sapa.backends.triton.table import FORWARD, Tile

Sizes = tuple[int, int, int, int, int, int]  # H, W, low_h, low_w, Kh, Kw
Meta = dict[str, Any]

ALIGNED = 16  # numbers; Triton asks no more of a size or a stride than to be a multiple
MOST_NEIGHBOURS = 4  # points of a row in one load: 16 bytes of float32
MOST_POINTS = 2  # of a thread, where channels are few
OF_WINDOWS = 8  # numbers that a thread holds, where a program holds whole windows
KEPT = 2**15  # bytes of keys and values that a program keeps in the first-level cache from one turn to the next
ENOUGH = 2**17  # threads, about as many as a large GPU runs at once: up to there, programs share their cells
AT_ONCE = 16  # points of a cell that a program of low-res points takes in one turn
ALL_REGISTERS = 65536  # of a multiprocessor; a program may take them all
MOST_OF_A_CELL = 256  # points that one program holds
FEWEST_CHANNELS = 16  # of a block that is cut
FULL = (4, 16, 64, 256)  # points of a cell that fill a tile, whose sides are powers of two


@dataclass(frozen=True)
class Work:
    """What a kernel has to do for one sample."""

    phases: int  # high-res points of a cell, at most
    cells: int
    C: int
    D: int | None
    V: int  # neighbours that are loaded together
    layout: str = "channels_last"
    owns: str = "points"  # what a program makes: high-res points, or low-res "cells"
    extras: int = 0  # a bias, softplus: they take registers
    is_uneven: bool = False  # a ratio that is not whole
    is_ragged: bool = False  # a planar map whose rows Triton does not know to be aligned
    is_mixed: bool = False  # some maps are planar, some channels_last
    is_large: bool = False  # offsets of 64 bits
    is_half: bool = False
    is_double: bool = False
    taps: int | None = None  # of a window, where a program holds whole windows
    times: int = 1  # samples and groups

    @property
    def takes(self) -> int:
        """How many things of this call take registers; offsets that are wider, or of two kinds, count twice."""
        found = self.extras + 2 * (self.is_mixed + self.is_large) + (self.C % ALIGNED != 0)
        return found + (self.D is not None and self.is_ragged)

    @property
    def T(self) -> int | None:
        return None if self.taps is None else triton.next_power_of_2(self.taps)

    @property
    def is_regular(self) -> bool:
        """Whether the points of a cell follow from one another: in pairs if planar, else if they fill a tile."""
        return self.V > 1 if self.layout == "planar" else self.is_full

    @property
    def is_full(self) -> bool:
        return self.phases in FULL and not self.is_uneven


def steps(sizes: Sizes) -> tuple[int, int]:
    """High-res points of a cell, down and right; 0 where the ratio is not whole, as cells differ."""
    H, W, low_h, low_w = sizes[:4]
    return (H // low_h, W // low_w) if H % low_h == 0 and W % low_w == 0 else (0, 0)


def neighbours(SX: int, layout: str) -> int:
    """How many points of a row are loaded together: in a planar map they lie side by side."""
    return math.gcd(SX, MOST_NEIGHBOURS) if SX and layout == "planar" else 1


def meta_of(tile: Tile, kernel: Any, work: Work, target: GPUTarget | None) -> Meta:
    """The constants of a kernel for this tile: cells are more where channels are few, threads where there is more."""
    tile = tile if target is None else for_type(tile, work)
    BC, BD = (min(most, triton.next_power_of_2(n)) for most, n in ((tile.BC, work.C), (tile.BD, work.D or work.C)))
    spare = tile.BC // BC if work.D is None else min(tile.BC // BC, tile.BD // BD)
    halved = 0 if work.is_double or target is None else halvings(tile, work, spare)
    held = max(1, min(spare * tile.points, max(tile.points, MOST_POINTS * 32 * tile.warps)) >> halved)
    warps = tile.warps
    cell = min(MOST_OF_A_CELL, triton.next_power_of_2(work.phases // work.V) * work.V)
    if work.owns == "cells":
        cell = min(cell, max(work.V, AT_ONCE >> halved))
    elif target is not None:
        held, warps, BC = for_whole_cells(tile, work, held, cell, BC)
    U = max(1, min(held, cell) // work.V)
    N = min(max(1, held // (U * work.V)), triton.next_power_of_2(work.cells))
    found = {"U": U, "V": work.V, "N": N, "BC": BC, "BD": BD, "LAST": work.layout == "channels_last"}
    found |= shares(work, ceil(work.phases, U * work.V), ceil(work.cells, N) * work.times, BC, warps)
    options = options_of(warps, tile.registers, target)
    return {key: value for key, value in found.items() if key in kernel.arg_names} | options


def for_whole_cells(tile: Tile, work: Work, held: int, cell: int, BC: int) -> tuple[int, int, int]:
    """Points, warps and channels of a program that makes a cell at once, if there are registers for it.

    A large window takes points, then threads; a large cell takes threads, and when all are taken, channels.
    """
    warps, windows = tile.warps, held
    most_warps = ALL_REGISTERS // (32 * tile.registers) // (1 + work.is_double)
    if work.T is not None:
        warps = min(most_warps, max(warps, work.T // (32 * OF_WINDOWS)))
        windows = max(1, 32 * OF_WINDOWS * warps // work.T)
        held = min(held, windows)
    more = max(1, min(cell // held, most_warps // warps))
    fewer = max(1, min(cell // (held * more), windows // held, most_cuts(tile, work)))
    if fewer > 1:  # twice as few, as weights take what a thread has left
        BC = min(BC, max(FEWEST_CHANNELS, tile.BC // (2 * fewer)))
    return held * more * fewer, warps * more, BC


def shares(work: Work, turns: int, blocks: int, BC: int, warps: int) -> Meta:
    """How many programs share the turns of a block of cells, and how many its channels, each with scores of its own."""
    wanted = ceil(ENOUGH, 32 * warps)
    sharing = min(turns, ceil(wanted, blocks))
    of_channels = ceil(work.C, BC)
    cutting = min(of_channels, ceil(wanted, blocks * sharing))
    if turns > sharing:
        cutting = max(cutting, ceil(of_channels, max(1, channels_kept(work) // BC)))
    return {"sharing": sharing, "cutting": cutting}


def channels_kept(work: Work) -> int:
    """Whose values a cache has room for beside the keys, which may take half of it."""
    window = (work.taps or 1) * 4 * (1 + work.is_double)
    return (KEPT - min((work.D or 0) * window, KEPT // 2)) // window


def ceil(n: int, size: int) -> int:
    # not triton.cdiv, which takes longer than all else here
    return -(-n // size)


def most_cuts(tile: Tile, work: Work) -> int:
    """By how much fewer a block's channels may be so that a program holds a whole cell at once."""
    if tile.registers > FORWARD or work.is_double:
        return 1
    return max(1, tile.BC // (FEWEST_CHANNELS if work.is_regular else 2 * FEWEST_CHANNELS))


def for_type(tile: Tile, work: Work) -> Tile:
    """Numbers of float64 take two registers each; of half types a load has eight, so that a thread holds more."""
    if work.is_half:
        return replace(tile, BD=min(tile.BD, 32))
    if not work.is_double:
        return tile
    BC = min(tile.BC, 32)
    return replace(tile, points=tile.warps * 32 // BC, BC=BC)


def halvings(tile: Tile, work: Work, spare: int) -> int:
    """How often the points of a program are halved, as a call needs more registers for each. Found by compiling."""
    takes, is_forward = work.takes, tile.registers == FORWARD
    if work.T is not None:
        if is_forward:
            return int(takes > 1 or work.phases == 1 or work.is_uneven)
        return int(work.is_uneven and (takes > 0 or work.T > 32))
    if is_forward:
        return halvings_of_weights(work, takes)
    alone = 1 + work.is_uneven if work.phases == 1 else 0
    return alone + (takes > 1) + (takes > 4) + (takes > 1 and spare > 1)


def halvings_of_weights(work: Work, takes: int) -> int:
    """For `assemble`, which loads a weight for each point, at an address of its own where cells are not regular."""
    if work.layout == "planar":
        return (takes > 0) + (not work.is_regular)
    return (work.phases > 4) + (takes > 0) if work.is_regular else 3


def options_of(warps: int, registers: int, target: GPUTarget | None) -> Meta:
    """What the compiler is told besides; there is no target in the interpreter."""
    if target is None:
        return {}
    if target.backend == "hip":
        # a wave has 64 threads on AMD's data centre GPUs and 32 on the others
        return {"num_warps": warps * 32 // target.warp_size}
    if target.backend != "cuda":
        return {"num_warps": warps}
    return {"num_warps": warps, "maxnreg": registers}
