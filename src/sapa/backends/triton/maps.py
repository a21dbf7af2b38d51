"""Inside the kernels: channels of points, [channels, points], in memory; and products of matrices."""

import triton
import triton.language as tl


@triton.jit
def at(strides, c, y, x):
    return (c * strides[1])[:, None] + (y * strides[2] + x * strides[3])[None, :]


@triton.jit
def load(a, strides, c, is_channel, y, x, is_there, ACC: tl.constexpr):
    return tl.load(a + at(strides, c, y, x), mask=is_channel[:, None] & is_there[None, :], other=0).to(ACC)


@triton.jit
def load_once(a, strides, c, is_channel, y, x, is_there, ACC: tl.constexpr):
    """What no other program asks for passes by the first-level cache, and leaves it to windows, which overlap."""
    mask = is_channel[:, None] & is_there[None, :]
    return tl.load(a + at(strides, c, y, x), mask=mask, other=0, cache_modifier=".cg").to(ACC)


@triton.jit
def store(a, strides, c, is_channel, y, x, is_there, values):
    mask = is_channel[:, None] & is_there[None, :]
    tl.store(a + at(strides, c, y, x), values.to(a.dtype.element_ty), mask=mask)


@triton.jit
def load_taps(w, strides, p, y, x, is_there, ACC: tl.constexpr):
    """A weight for each tap and point: p and is_there are [points, taps]."""
    return tl.load(w + taps_at(strides, p, y, x), mask=is_there, other=0, cache_modifier=".cg").to(ACC)


@triton.jit
def store_taps(w, strides, p, y, x, is_there, values):
    tl.store(w + taps_at(strides, p, y, x), values.to(w.dtype.element_ty), mask=is_there)


@triton.jit
def taps_at(strides, p, y, x):
    return p * strides[1] + (y * strides[2] + x * strides[3])[:, None]


@triton.jit
def dot(a, b):
    """With all digits of float32: not in TF32."""
    return tl.dot(a, b, input_precision="ieee")
