"""Inside the kernels: which points a program holds.

A program takes N low-res cells and, on the high-res side, U times V of the points of each: a tile of high-res points is
[U, N, V], and with channels [U, channels, N, V]. U stands first on purpose. Triton then keeps it in the registers of a
thread, so that a value of the window, [channels, N], is loaded once and serves all of its points; N and the channels
go to the threads, in the order in which they lie side by side in memory, and so does what is left of U in a large cell.
V stands last: so many neighbours in a row of a planar map make one load. It is 1 for other maps, and where the ratio of
sizes is not whole.

`sizes` is (H, W, low_h, low_w, Kh, Kw). A cell has SY times SX points; both are 0 where the ratio is not whole.
INDEX is int64 where an offset may not fit 32 bits.
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
def cells(number, sizes, N: tl.constexpr, INDEX: tl.constexpr):
    """Row and column of the low-res points of a block, and whether they exist: [N] each."""
    i, j = split((number * N + tl.arange(0, N)).to(INDEX), sizes[3])
    return i, j, i < sizes[2]


@triton.jit
def turns(sizes, SY: tl.constexpr, SX: tl.constexpr, U: tl.constexpr, V: tl.constexpr):
    """How many turns the points of a cell are for: some have fewer where cells differ."""
    if SX > 0:
        found = tl.cdiv(SY * (SX // V), U)
    else:
        found = tl.cdiv(tl.cdiv(sizes[0], sizes[2]) * tl.cdiv(sizes[1], sizes[3]), U)
    return found


@triton.jit
def points(i, j, is_cell, part, sizes, SY: tl.constexpr, SX: tl.constexpr, U: tl.constexpr, V: tl.constexpr):
    """Row and column of some points of each cell, and whether they exist: [U, N, 1], [U, N, V] and [U, N, 1]."""
    number = part * U + tl.arange(0, U)
    is_point = is_cell[None, :]
    if SX > 0:
        down, right = split(number, SX // V)
        y = (i * SY)[None, :] + down[:, None]
        x = (j * SX)[None, :] + (right * V)[:, None]
        if SY * (SX // V) % U != 0:
            is_point &= (down < SY)[:, None]
    else:
        down, right = split(number, tl.cdiv(sizes[1], sizes[3]))
        y = first(i, sizes[0], sizes[2])[None, :] + down[:, None]
        x = first(j, sizes[1], sizes[3])[None, :] + right[:, None]
        is_point &= y < first(i + 1, sizes[0], sizes[2])[None, :]
        is_point &= x < first(j + 1, sizes[1], sizes[3])[None, :]
    return y[:, :, None], x[:, :, None] + tl.arange(0, V)[None, None, :], is_point[:, :, None]


@triton.jit
def block_of_cells(number, sizes, sharing, N: tl.constexpr, INDEX: tl.constexpr):
    """Batch and cells [N] of a program, and the first of its turns; those that share these cells take the others."""
    number, turn = split(number, sharing)
    b, block = split(number, tl.cdiv(sizes[2] * sizes[3], N))
    i, j, is_cell = cells(block, sizes, N, INDEX)
    return b.to(tl.int64), i, j, is_cell, turn


@triton.jit
def is_inside(i, j, sizes):
    return (i >= 0) & (i < sizes[2]) & (j >= 0) & (j < sizes[3])


@triton.jit
def channels(number, size, BC: tl.constexpr, INDEX: tl.constexpr):
    """The channels of a block, and whether they exist."""
    c = number * BC + tl.arange(0, BC)
    return c.to(INDEX), c < size
