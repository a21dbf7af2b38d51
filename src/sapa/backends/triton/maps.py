"""Inside the kernels: where points lie in memory, and sums over the tiles of `tiles.py`."""

import triton
import triton.language as tl


@triton.jit
def low(strides, c, i, j):
    """Where channels of low-res points lie: [channels, N]."""
    return (c * strides[1])[:, None] + (i * strides[2] + j * strides[3])[None, :]


@triton.jit
def high(strides, c, y, x):
    """Where channels of high-res points lie: [U, channels, N, V]."""
    return (c * strides[1])[None, :, None, None] + (y * strides[2] + x * strides[3])[:, None, :, :]


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
def load_tap(w, strides, p, y, x, is_point, ACC: tl.constexpr):
    """The weights of one tap: [U, 1, N, V]."""
    at = (p * strides[1] + y * strides[2] + x * strides[3])[:, None, :, :]
    return tl.load(w + at, mask=is_point[:, None, :, :], other=0).to(ACC)


@triton.jit
def store_low(a, strides, c, is_channel, i, j, is_low, values):
    tl.store(a + low(strides, c, i, j), values.to(a.dtype.element_ty), mask=is_channel[:, None] & is_low[None, :])


@triton.jit
def store_high(a, strides, c, is_channel, y, x, is_point, values):
    there = is_channel[None, :, None, None] & is_point[:, None, :, :]
    tl.store(a + high(strides, c, y, x), values.to(a.dtype.element_ty), mask=there)


@triton.jit
def sums_of(out, strides, c, C, y, x, is_point, ACC: tl.constexpr):
    """Zeros for sums that will be stored here, [U, channels, N, V], by a load that never happens.

    It is for the compiler: so they are laid out as they will be stored, and values are loaded to where they are summed.
    With `tl.zeros`, which have no place of their own, each value is exchanged between all threads. The modifier, which
    no other load has, lets one know it in a binary.
    """
    there = is_point[:, None, :, :] & (C < 0)
    return tl.load(out + high(strides, c, y, x), mask=there, other=0, cache_modifier=".cv").to(ACC)


@triton.jit
def spread(w, value):
    """w[p] value[c(p) + t] for all channels: [U, 1, N, V] and [channels, N] to [U, channels, N, V]."""
    return w * value[None, :, :, None]


@triton.jit
def gather(w, value):
    """sum_p w[p] value[p] over the points of each cell: [U, 1, N, V] and [U, channels, N, V] to [channels, N]."""
    return tl.sum(tl.sum(w * value, 3), 0)


@triton.jit
def inner(pull, value):
    """<pull[p], value[i]> over the channels of a tile: [U, channels, N, V] and [channels, N] to [U, 1, N, V]."""
    return tl.sum(pull * value[None, :, :, None], 1, keep_dims=True)
