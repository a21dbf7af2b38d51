"""How large the tiles of each kernel are, for either memory format.

Chosen by what they compile to: `python -m bench.gpu` writes registers, shared memory and occupancy of each to
docs/gpu.md, and a test holds them to their limits. The first is taken, and cut where it spills,
unless SAPA_TUNE=1 lets them compete.
"""

from dataclasses import dataclass

FORWARD, BACKWARD = 64, 128  # registers of a thread: half of an A100's threads at once, and a quarter


@dataclass(frozen=True)
class Tile:
    """What a program holds: points, value and embedding channels, groups of 32 threads.

    The number of registers is a cap for NVIDIA's assembler, which would otherwise spill a few to save others. A call
    that needs more of them for each point takes fewer points; a cell that is larger than this takes more threads:
    `fit.py`.
    """

    points: int
    BC: int
    BD: int
    warps: int
    registers: int = BACKWARD


TILES: dict[str, dict[str, tuple[Tile, ...]]] = {
    "attend": {
        "channels_last": (Tile(16, 128, 64, 4, FORWARD), Tile(32, 128, 64, 8, FORWARD)),
        "planar": (Tile(32, 32, 32, 4, FORWARD),),
    },
    "assemble": {
        "channels_last": (Tile(64, 32, 32, 4, FORWARD),),
        # two points for a thread, so that it loads their weights at once
        "planar": (Tile(128, 8, 32, 2, FORWARD),),
    },
    "points": {"channels_last": (Tile(32, 64, 64, 4),), "planar": (Tile(32, 32, 64, 4),)},
    "scatter": {"channels_last": (Tile(32, 64, 32, 4),), "planar": (Tile(32, 32, 32, 4),)},
    "assemble_weights": {"channels_last": (Tile(32, 64, 32, 4),), "planar": (Tile(32, 64, 32, 4),)},
}
# the interpreter takes its time for each program, not for each point
INTERPRETED = Tile(512, 64, 64, 4)
