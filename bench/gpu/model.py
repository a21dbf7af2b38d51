"""What the kernels have to move and to compute for each output point, and the least time that takes on a GPU.

DRAM traffic counts every map once for each kernel that reads or writes it; what neighbouring programs share is in the
caches. "Executed" FLOPs count scores as often as they are made: forward once, as a program makes all channels of its
points where cells are many; backward again for each block of the channels of dv and dk. The official extension makes
scores, softmax and sum in three kernels, and keeps all weights.
"""

from dataclasses import dataclass

from sapa.backends.triton.table import Tile

# NVIDIA's figures for the SXM modules with 80 GB: DRAM bytes per second, float32 FLOPs per second
GPUS = {"A100": (2.039e12, 19.5e12), "H100": (3.35e12, 66.9e12)}


@dataclass(frozen=True)
class Shape:
    C: int = 256
    D: int = 32
    K: int = 5
    scale: int = 2
    itemsize: int = 4

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
    """points reads g, q, k, v and writes dq; values reads g, q, k; keys reads g, q, k, v; 12 bytes of state each."""
    high = s.high * (3 * s.C + 3 * s.D + s.D)
    low = s.low * (2 * (s.C + s.D) + s.D + s.C + s.D)
    return high + low + 3 * 12


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


def executed_backward(s: Shape, values: Tile, keys: Tile) -> int:
    first = s.D + s.C + s.D
    second = -(-s.C // values.BC) * s.D + s.C
    third = -(-s.D // keys.BD) * (s.D + s.C) + s.D
    return 2 * s.P * (first + second + third)


def roofline(moved: float, computed: float, gpu: str) -> float:
    """Seconds for one point: whichever of memory and arithmetic takes longer."""
    bandwidth, rate = GPUS[gpu]
    return max(moved / bandwidth, computed / rate)
