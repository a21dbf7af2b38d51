"""Inside the kernels: which points a program holds.

A program takes a strip of N neighbouring low-res cells in a row. On the high-res side those are a rectangle of points,
[M]; on the low-res side the strip and what stands around it, the window of all its cells, [T]: KH rows of COLUMNS,
which are N + KW - 1, or one more where that lets them load in pairs. What points take from the window are products of
matrices, [M, T] times [T, channels].

`sizes` is (H, W, low_h, low_w, Kh, Kw), of which KH and KW are known when a kernel is compiled. A cell has SY times SX
points; both are 0 where the ratio is not whole. INDEX is int64 where an offset may not fit 32 bits.
"""

import triton
import triton.language as tl


@triton.jit
def split(number, size):
    """(slow, fast) of a running number whose fast part has this size."""
    return number // size, number % size


@triton.jit
def first(i, high, low):
    """The first high-res point whose centre is i or later: c(p) >= i where (2p + 1) low >= 2 high i."""
    return (2 * i * high + low - 1) // (2 * low)


@triton.jit
def strip(number, sizes, N: tl.constexpr, INDEX: tl.constexpr):
    """The sample of a strip, and row and column of its first cell."""
    number, block = split(number, tl.cdiv(sizes[3], N))
    b, i = split(number, sizes[2])
    return b.to(tl.int64), i.to(INDEX), block.to(INDEX) * N


@triton.jit
def points_of(sizes, cells: tl.constexpr, SY: tl.constexpr, SX: tl.constexpr):
    """How many points so many cells of a row have: at most, where cells differ."""
    return SY * SX * cells if SX > 0 else tl.cdiv(sizes[0], sizes[2]) * tl.cdiv(cells * sizes[1], sizes[3])


@triton.jit
def points(i, j, part, sizes, cells: tl.constexpr, SY: tl.constexpr, SX: tl.constexpr, M: tl.constexpr):
    """Row and column of M points of some cells from (i, j) on, the cell of each, and whether it exists: [M] each."""
    number = part * M + tl.arange(0, M)
    if SX > 0:
        down, right = split(number, cells * SX)
        # not right // SX, of which the compiler does not see that neighbours share it
        y, x, cell = i * SY + down, j * SX + right, number // SX % cells
        is_point = (down < SY) & (x >= 0) & (x < sizes[1])
    else:
        down, right = split(number, tl.cdiv(cells * sizes[1], sizes[3]))
        y = first(i, sizes[0], sizes[2]) + down
        x = first(tl.maximum(j, 0), sizes[1], sizes[3]) + right
        cell = (2 * x + 1) * sizes[3] // (2 * sizes[1]) - j
        end = first(tl.minimum(j + cells, sizes[3]), sizes[1], sizes[3])
        is_point = (y < first(i + 1, sizes[0], sizes[2])) & (x < end)
    return y, x, cell, is_point & (i >= 0) & (i < sizes[2])


@triton.jit
def leftmost(j, N: tl.constexpr, KW: tl.constexpr, COLUMNS: tl.constexpr):
    """The first column of a strip's window: an even one if there is a column more than cells need."""
    if COLUMNS > N + KW - 1:
        odd: tl.constexpr = KW // 2 % 2
        left = (j + odd) // 2 * 2 - KW // 2 - odd
    else:
        left = j - KW // 2
    return left


@triton.jit
def window(i, left, part, sizes, COLUMNS: tl.constexpr, T: tl.constexpr, KH: tl.constexpr):
    """T numbers of a strip's window: rows and columns from its corner on, those of the map, and whether they exist."""
    down, right = split(part * T + tl.arange(0, T), COLUMNS)
    row, column = i + down - KH // 2, left + right
    is_low = (row >= 0) & (row < sizes[2]) & (column >= 0) & (column < sizes[3]) & (down < KH)
    return down, right, row, column, is_low


@triton.jit
def taps(down, right, start, KH: tl.constexpr, KW: tl.constexpr):
    """Which tap of its own window, that begins at column `start`, each number of the strip's is to a point, and whether
    it is one: [M, T] each."""
    across = right[None, :] - start[:, None]
    return down[None, :] * KW + across, (across >= 0) & (across < KW) & (down < KH)[None, :]


@triton.jit
def channels(number, size, BC: tl.constexpr, INDEX: tl.constexpr):
    """The channels of a block, and whether they exist."""
    c = number * BC + tl.arange(0, BC)
    return c.to(INDEX), c < size
