"""How large the tiles of each kernel are.

Chosen by what they compile to: `python -m bench.gpu` writes registers, shared memory and occupancy of each to
docs/gpu.md, and a test holds them to their limits. The first that does not spill is taken,
or the first is cut until it does not, unless SAPA_TUNE=1 lets those that fit compete.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

CELLS = 4  # of a program that gathers
FORWARD, BACKWARD = 64, 128  # registers of a thread: half of an A100's threads at once, and a quarter


class Share(NamedTuple):
    """What a thread has of a program: sums of channels, and numbers of windows."""

    sums: int
    taps: int


@dataclass(frozen=True)
class Tile:
    """What a program holds that makes points: at least so many, blocks of embedding channels, and what a thread has.

    From this follow the threads and the blocks of value channels. A thread has more of a single cell, as there is no
    neighbour's window to tell apart from its own, and less where there is more to know about each of its points. The
    number of registers is a cap for NVIDIA's assembler, which would otherwise spill a few to save others, or take more
    than leave room for the others.
    """

    points: int
    BD: int
    registers: int
    strip: Share
    cell: Share
    large: Share  # cell
    special: Share  # cell: with a bias, or unlike the others in its points
    keeps_keys: bool = False  # from one use to the other, if a block has all their channels


@dataclass(frozen=True)
class Gathering:
    """What a program holds that makes low-res points: these, and from how many high-res points it gathers at a time."""

    cells: int
    points: int
    BC: int
    sums: int
    registers: int


LONE = Share(4, 8)  # of the fewest threads that there are, which need not wait for others
FORWARD_TILE = Tile(4, 16, FORWARD, strip=LONE, cell=Share(16, 8), large=Share(16, 8), special=LONE)
BACKWARD_TILE = Tile(4, 32, BACKWARD, strip=LONE, cell=LONE, large=Share(4, 16), special=LONE)
TILES: dict[str, tuple[Tile, ...] | tuple[Gathering]] = {
    "attend": (FORWARD_TILE, replace(FORWARD_TILE, strip=Share(4, 4))),
    "assemble": (FORWARD_TILE, replace(FORWARD_TILE, strip=Share(4, 4))),
    "points": (replace(BACKWARD_TILE, keeps_keys=True),),
    "scatter": (Gathering(CELLS, 16, 128, 8, BACKWARD),),
    "assemble_weights": (replace(BACKWARD_TILE, cell=Share(4, 16)),),
}
# the interpreter takes its time for each program, not for each point
ALL = Share(1024, 1024)
INTERPRETED = {"points": Tile(256, 64, 64, ALL, ALL, ALL, ALL), "cells": Gathering(64, 256, 64, 1024, 64)}
