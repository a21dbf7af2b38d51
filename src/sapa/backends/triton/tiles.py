"""Inside the kernels: which points a program holds, and where they lie in memory.

A program takes N low-res cells and, on the high-res side, U of the points of each: a tile of high-res points is
[U, N], and with channels [U, channels, N]. U stands first on purpose. Triton then keeps it in the registers of a
thread, so that a value of the window, [channels, N], is loaded once and serves all U points; N and the channels go
to the threads, in the order in which they lie side by side in memory.

`sizes` is (H, W, low_h, low_w, Kh, Kw). INDEX is int64 where an offset may not fit 32 bits.
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
    return (2 * high * i + low - 1) // (2 * low)


@triton.jit
def cells(number, sizes, N: tl.constexpr, INDEX: tl.constexpr):
    """Row and column of the low-res points of a block, and whether they exist: [N] each."""
    i, j = split((number * N + tl.arange(0, N)).to(INDEX), sizes[3])
    return i, j, i < sizes[2]


@triton.jit
def phases(sizes):
    """High-res points in a cell at most: there are fewer in some where the ratio is not whole."""
    return tl.cdiv(sizes[0], sizes[2]) * tl.cdiv(sizes[1], sizes[3])


@triton.jit
def points(i, j, is_cell, part, sizes, U: tl.constexpr):
    """Row and column of some points of each cell, and whether they exist: [U, N] each."""
    down, right = split(part * U + tl.arange(0, U), tl.cdiv(sizes[1], sizes[3]))
    y = first(i, sizes[0], sizes[2])[None, :] + down[:, None]
    x = first(j, sizes[1], sizes[3])[None, :] + right[:, None]
    is_own = (y < first(i + 1, sizes[0], sizes[2])[None, :]) & (x < first(j + 1, sizes[1], sizes[3])[None, :])
    return y, x, is_own & is_cell[None, :]


@triton.jit
def block_of_points(number, sizes, U: tl.constexpr, N: tl.constexpr, INDEX: tl.constexpr):
    """Batch, cells [N] and points [U, N] of a program that holds high-res points."""
    number, part = split(number, tl.cdiv(phases(sizes), U))
    b, block = split(number, tl.cdiv(sizes[2] * sizes[3], N))
    i, j, is_cell = cells(block, sizes, N, INDEX)
    y, x, is_point = points(i, j, is_cell, part, sizes, U)
    return b.to(tl.int64), i, j, y, x, is_point


@triton.jit
def is_inside(i, j, sizes):
    return (i >= 0) & (i < sizes[2]) & (j >= 0) & (j < sizes[3])


@triton.jit
def channels(number, size, BC: tl.constexpr, INDEX: tl.constexpr):
    """The channels of a block, and whether they exist."""
    c = number * BC + tl.arange(0, BC)
    return c.to(INDEX), c < size


@triton.jit
def low(strides, c, i, j):
    """Where channels of low-res points lie: [channels, N]."""
    return (c * strides[1])[:, None] + (i * strides[2] + j * strides[3])[None, :]


@triton.jit
def high(strides, c, y, x):
    """Where channels of high-res points lie: [U, channels, N]."""
    return (c * strides[1])[None, :, None] + (y * strides[2] + x * strides[3])[:, None, :]


@triton.jit
def dot_block(a, a_strides, y, x, is_point, b, b_strides, i, j, is_low, c, is_channel, ACC: tl.constexpr):
    """<a[p], b[i]> over these channels: points [U, N], one low-res point for each column, to [U, N]."""
    at, there = high(a_strides, c, y, x), is_channel[None, :, None] & is_point[:, None, :]
    a_tile = tl.load(a + at, mask=there, other=0).to(ACC)
    b_tile = tl.load(b + low(b_strides, c, i, j), mask=is_channel[:, None] & is_low[None, :], other=0).to(ACC)
    return tl.sum(a_tile * b_tile[None, :, :], 1)


@triton.jit
def dot(
    a, a_strides, y, x, is_point, b, b_strides, i, j, is_low, C, BC: tl.constexpr, ONE: tl.constexpr,
    INDEX: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """<a[p], b[i]> over all channels. In ONE block, a tile that the loop around leaves alone stays in registers."""
    c, is_channel = channels(0, C, BC, INDEX)
    total = dot_block(a, a_strides, y, x, is_point, b, b_strides, i, j, is_low, c, is_channel, ACC)
    if not ONE:
        for n in range(1, tl.cdiv(C, BC)):
            c, is_channel = channels(n, C, BC, INDEX)
            total += dot_block(a, a_strides, y, x, is_point, b, b_strides, i, j, is_low, c, is_channel, ACC)
    return total
