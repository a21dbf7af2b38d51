"""Inside the kernels: where points lie in memory, and sums over the tiles of `tiles.py`."""

import triton
import triton.language as tl

from sapa.backends.triton.tiles import channels


@triton.jit
def low(strides, c, i, j):
    """Where channels of low-res points lie: [channels, N]."""
    return (c * strides[1])[:, None] + (i * strides[2] + j * strides[3])[None, :]


@triton.jit
def high(strides, c, y, x):
    """Where channels of high-res points lie: [U, channels, N, V]."""
    return (c * strides[1])[None, :, None, None] + (y * strides[2] + x * strides[3])[:, None, :, :]


@triton.jit
def plane(number, y, x, sizes):
    """Where a number of each point lies that has a plane of its own: [U, N, V]."""
    return (number * sizes[0] + y) * sizes[1] + x


@triton.jit
def load_low(a, strides, c, is_channel, i, j, is_low, ACC: tl.constexpr):
    return tl.load(a + low(strides, c, i, j), mask=is_channel[:, None] & is_low[None, :], other=0).to(ACC)


@triton.jit
def load_high(a, strides, c, is_channel, y, x, is_point, ACC: tl.constexpr):
    there = is_channel[None, :, None, None] & is_point[:, None, :, :]
    return tl.load(a + high(strides, c, y, x), mask=there, other=0).to(ACC)


@triton.jit
def load_once(a, strides, c, is_channel, y, x, is_point, ACC: tl.constexpr):
    """What is not asked for again passes by the first-level cache, and leaves it to the window."""
    there = is_channel[None, :, None, None] & is_point[:, None, :, :]
    return tl.load(a + high(strides, c, y, x), mask=there, other=0, cache_modifier=".cg").to(ACC)


@triton.jit
def store_low(a, strides, c, is_channel, i, j, is_low, values):
    tl.store(a + low(strides, c, i, j), values.to(a.dtype.element_ty), mask=is_channel[:, None] & is_low[None, :])


@triton.jit
def store_high(a, strides, c, is_channel, y, x, is_point, values):
    there = is_channel[None, :, None, None] & is_point[:, None, :, :]
    tl.store(a + high(strides, c, y, x), values.to(a.dtype.element_ty), mask=there)


@triton.jit
def spread(w, value):
    """w[p] value[c(p) + t] for all channels: [U, N, V] and [channels, N] to [U, channels, N, V]."""
    return w[:, None, :, :] * value[None, :, :, None]


@triton.jit
def gather(w, value):
    """sum_p w[p] value[p] over the points of each cell: [U, N, V] and [U, channels, N, V] to [channels, N]."""
    return tl.sum(tl.sum(w[:, None, :, :] * value, 3), 0)


@triton.jit
def inner(pull, value):
    """<pull[p], value[i]> over the channels of a tile: [U, channels, N, V] and [channels, N] to [U, N, V]."""
    return tl.sum(pull * value[None, :, :, None], 1)


@triton.jit
def dot(
    a, a_strides, y, x, is_point, b, b_strides, i, j, is_low, C, BC: tl.constexpr, ONE: tl.constexpr,
    INDEX: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """<a[p], b[i]> over all channels: points [U, N, V], and one low-res point [N] for all points of a cell.

    In ONE block, a tile that the loop around leaves alone stays in registers.
    """
    total = tl.zeros(x.shape, ACC)
    for n in range(1 if ONE else tl.cdiv(C, BC)):
        c, is_channel = channels(n, C, BC, INDEX)
        pull = load_high(a, a_strides, c, is_channel, y, x, is_point, ACC)
        total += inner(pull, load_low(b, b_strides, c, is_channel, i, j, is_low, ACC))
    return total
