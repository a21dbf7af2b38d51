"""How large the tiles of each kernel are.

Chosen by what they compile to: `python -m bench.gpu` writes registers, shared memory and occupancy of each to
docs/gpu.md, and a test holds them to their limits. The first is taken, and cut where it spills,
unless SAPA_TUNE=1 lets them compete.
"""

from dataclasses import dataclass

GATHERING = 4  # cells of a program that gathers
FORWARD, BACKWARD = 64, 128  # registers of a thread: half of an A100's threads at once, and a quarter


@dataclass(frozen=True)
class Tile:
    """What a program holds: at least so many points, blocks of value and of embedding channels, groups of 32 threads.

    More points take more threads, so that each has no more than so many sums of channels, and numbers of windows: of a
    single cell more, as there is no neighbour's window to tell apart from its own. The number of registers is a cap for
    NVIDIA's assembler, which would otherwise spill a few to save others, or take more than leave room for the others.
    """

    points: int
    BC: int
    BD: int
    warps: int
    registers: int = BACKWARD
    each: int = 8  # sums of channels
    taps: int = 4  # numbers of windows, if there are threads enough
    alone: int = 2  # so many times as many of a single cell, and embedding channels
    cells: int = 1  # of a program that makes low-res points


TILES: dict[str, tuple[Tile, ...]] = {
    "attend": (Tile(4, 32, 16, 2, FORWARD), Tile(4, 32, 32, 2, FORWARD)),
    "assemble": (Tile(4, 32, 16, 2, FORWARD),),
    "points": (Tile(4, 32, 32, 2, alone=1),),
    "scatter": (Tile(16, 128, 32, 2, cells=GATHERING),),
    "assemble_weights": (Tile(4, 32, 32, 2),),
}
# the interpreter takes its time for each program, not for each point
INTERPRETED = Tile(256, 64, 64, 4, each=1024, taps=1024, alone=1, cells=64)
