"""What the kernels have to move and to compute for each output point, and the least time that takes on a GPU.

DRAM traffic counts every map once for each kernel that reads or writes it; what neighbouring programs share is in the
caches. FLOPs are those of the definition; beside them those executed where cells are many, as products of matrices take
in what is no tap of a point. What backward needs of a score is handed on. The official extension makes scores, softmax
and sum in three kernels, and keeps all weights.
"""

from dataclasses import dataclass

# NVIDIA's figures for the SXM modules with 80 GB: DRAM bytes per second, float32 FLOPs per second
GPUS = {"A100": (2.039e12, 19.5e12), "H100": (3.35e12, 66.9e12)}
A100_CACHE = 5120 * 1.41e9  # bytes per second that its second-level cache delivers
A100_ISSUES = 108 * 4 * 1.41e9  # instructions per second: one a cycle from each of four schedulers of an SM
WIDE = 4  # bytes of what is kept in between, whatever the maps are of


@dataclass(frozen=True)
class Shape:
    C: int = 256
    D: int = 32
    K: int = 5
    scale: int = 2
    itemsize: int = 4
    window: int = 32  # numbers of a strip's, to a power of two
    cells: int = 4  # of a program that gathers

    @property
    def P(self) -> int:
        return self.K**2

    @property
    def high(self) -> int:
        """Bytes of a query, and of a value, at a high-res point."""
        return self.itemsize

    @property
    def low(self) -> float:
        return self.itemsize / self.scale**2


def forward_bytes(s: Shape) -> float:
    return s.high * (s.D + s.C) + s.low * (s.D + s.C)


def backward_bytes(s: Shape) -> float:
    """points reads g, q, k, v and writes dq; scatter reads g for dv, q for dk. w and ds are written once, and read."""
    high = s.high * (2 * s.C + 3 * s.D)
    low = s.low * 2 * (s.C + s.D)
    return high + low + 4 * WIDE * s.P


def official_forward_bytes(s: Shape) -> float:
    """Besides the maps: scores written, read and written by the softmax, read again."""
    return forward_bytes(s) + 4 * s.P * s.itemsize


def official_backward_bytes(s: Shape) -> float:
    """g and v to dw, weights and dw to ds, ds to dq; dv and dk are added to by atomics, a tap of a point at a time."""
    maps = s.high * (s.C + 2 * s.D) + s.low * 2 * (s.C + s.D)
    return maps + s.itemsize * s.P * (1 + 1 + 3 + 1)


def official_atomics(s: Shape) -> int:
    return s.P * (s.C + s.D)


def flops(s: Shape) -> int:
    return 2 * s.P * (s.C + s.D)


def backward_flops(s: Shape) -> int:
    return 2 * s.P * (2 * s.C + 3 * s.D)


def executed(s: Shape) -> int:
    return 2 * s.window * (s.C + s.D)


def backward_executed(s: Shape) -> int:
    """Scores, gradients of weights and dq of whole windows; for each low-res point, all that its strip reads."""
    read = s.K * (s.cells + s.K - 1)
    return 2 * s.window * (s.C + 2 * s.D) + 2 * read * (s.C + s.D)


def loaded(kernel: str, s: Shape) -> float:
    """Bytes that programs load for a point: those of windows that overlap as often as they are loaded.

    Two cells side by side have a window of K rows of K + 1. A gathering program reads once for 128 channels, and of the
    weights of a point only those of its own cells.
    """
    window = s.K * (s.K + 1) / (2 * s.scale**2)
    read = s.K * (s.cells + s.K - 1) / s.cells
    numbers = {
        "attend": window * (s.C + s.D) + s.D,
        "points": window * (s.C + s.D) + s.C + s.D,
        "assemble": window * s.C + s.P,
        "assemble_weights": window * s.C + s.C,
        "scatter": read * s.C + s.P * s.C / 128,
    }
    return s.itemsize * numbers[kernel]


def issued(instructions: float) -> float:
    """Seconds an A100 takes to issue so many instructions of a warp for one point."""
    return instructions / A100_ISSUES


def roofline(moved: float, computed: float, gpu: str) -> float:
    """Seconds for one point: whichever of memory and arithmetic takes longer."""
    bandwidth, rate = GPUS[gpu]
    return max(moved / bandwidth, computed / rate)
