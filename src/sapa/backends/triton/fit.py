"""How the tiles of the table are cut to a problem and to a GPU: the constants a kernel is compiled with."""

import math
from dataclasses import dataclass
from typing import Any

import triton
from triton.backends.compiler import GPUTarget

from sapa.backends.triton.table import Tile

Sizes = tuple[int, int, int, int, int, int]  # H, W, low_h, low_w, Kh, Kw
Meta = dict[str, Any]

MOST_PHASES = 16  # points of a cell that one program holds
ALIGNED = 16  # numbers; Triton asks no more of a size or a stride than to be a multiple
WHOLE = (4, 9, 16)  # points of cells that a program of attention holds whole
MOST_POINTS = 2  # of a thread, where channels are few
MOST_NEIGHBOURS = 4  # points of a row in one load: 16 bytes of float32


@dataclass(frozen=True)
class Work:
    """What a kernel has to do for one sample."""

    phases: int  # high-res points of a cell, at most
    cells: int
    C: int
    D: int | None
    V: int  # neighbours that are loaded together
    layout: str = "channels_last"
    extras: int = 0  # a bias, softplus: they take registers
    is_uneven: bool = False  # a ratio that is not whole
    is_ragged: bool = False  # a planar map whose rows Triton does not know to be aligned
    is_mixed: bool = False  # some maps are planar, some channels_last
    is_large: bool = False  # offsets of 64 bits
    is_double: bool = False

    @property
    def is_usual(self) -> bool:
        """Cells of a usual size, in pairs if planar, and channels that Triton knows to be aligned."""
        is_attention = self.D is not None
        is_more = self.extras > 0 or self.is_uneven or self.is_mixed or self.is_large or self.is_double
        is_more |= self.is_ragged and is_attention
        is_paired = self.layout != "planar" or self.V > 1
        return self.phases in (WHOLE if is_attention else (4,)) and is_paired and self.C % ALIGNED == 0 and not is_more


def steps(sizes: Sizes) -> tuple[int, int]:
    """High-res points of a cell, down and right; 0 where the ratio is not whole, as cells differ."""
    H, W, low_h, low_w = sizes[:4]
    return (H // low_h, W // low_w) if H % low_h == 0 and W % low_w == 0 else (0, 0)


def neighbours(SX: int, layout: str) -> int:
    """How many points of a row are loaded together: in a planar map they lie side by side."""
    return math.gcd(SX, MOST_NEIGHBOURS) if SX and layout == "planar" else 1


def meta_of(tile: Tile, kernel: Any, work: Work, target: GPUTarget | None) -> Meta:
    """The constants of a kernel for this tile: where channels are few, cells are more."""
    less = 1 if target is None else fewer(tile, work)
    U = min(max(1, MOST_PHASES // less // work.V), triton.next_power_of_2(work.phases // work.V))
    BC = min(tile.BC, triton.next_power_of_2(work.C))
    BD = min(tile.BD, triton.next_power_of_2(work.C if work.D is None else work.D))
    spare = tile.BC // BC if work.D is None else min(tile.BC // BC, tile.BD // BD)
    # registers that are short already have no room for more cells
    most = MOST_POINTS * 32 * tile.warps // tile.points if less == 1 or work.D is None else 1
    spare = min(spare, max(1, most))
    N = min(max(1, spare * tile.points // less // (U * work.V)), triton.next_power_of_2(work.cells))
    found = {"U": U, "V": work.V, "N": N, "BC": BC, "BD": BD}
    found |= {"ONE_C": work.C <= BC, "ONE_D": work.D is not None and work.D <= BD}
    return {key: value for key, value in found.items() if key in kernel.arg_names} | options_of(tile, work, target)


def fewer(tile: Tile, work: Work) -> int:
    """By how much the points of a program are fewer, as a call needs more registers for each."""
    is_planar, is_deep = work.layout == "planar", work.D is not None and work.D > tile.BD
    if work.is_usual and not (is_planar and is_deep):
        return 1
    is_scattered = work.is_mixed or work.is_uneven or (work.V == 1 and (is_planar or work.phases != 4))
    extras = work.extras + is_deep + (work.C % ALIGNED != 0)
    # rows of channels leave little to halve where a cell is one point
    most = 1 if work.phases == 1 and not is_planar else 2
    # and fewer points of planar weights take more registers, as the binaries show
    most = 0 if work.D is None and is_planar else most
    less = tile.less * (2 ** min(extras, most) if is_scattered else 1)
    if work.is_large:
        less *= 4 if is_scattered else 2
    return 8 * less if work.is_double else less


def options_of(tile: Tile, work: Work, target: GPUTarget | None) -> Meta:
    """What the compiler is told besides; there is no target in the interpreter."""
    if target is None:
        return {}
    if target.backend == "hip":
        # a wave has 64 threads on AMD's data centre GPUs and 32 on the others
        return {"num_warps": tile.warps * 32 // target.warp_size}
    if target.backend != "cuda":
        return {"num_warps": tile.warps}
    return {"num_warps": tile.warps, "maxnreg": tile.registers}
