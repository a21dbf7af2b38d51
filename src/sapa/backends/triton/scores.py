"""Inside the kernels: how scores become weights, as `reference.py` has it."""

import triton
import triton.language as tl

EPSILON = tl.constexpr(1e-6)


@triton.jit
def sigmoid(s):
    return 1 / (1 + tl.exp(-s))


@triton.jit
def activation(s, peak, NORMALIZE: tl.constexpr):
    """f(s), the weight before it is divided by the sum; peak is the largest score."""
    if NORMALIZE == "softmax":
        f = tl.exp(s - peak)
    elif NORMALIZE == "relu":
        f = tl.where(s < 0, 0, s)
    elif NORMALIZE == "sigmoid":
        f = sigmoid(s)
    elif NORMALIZE == "softplus":
        # 1 + e rounds the digits of a small e away; the quotient gives them back
        e = tl.exp(-tl.abs(s))
        rounded = 1 + e
        kept = tl.where(rounded == 1, 1, rounded - 1)
        f = tl.where(s < 0, 0, s) + tl.where(rounded == 1, e, tl.log(rounded) * (e / kept))
    else:
        f = tl.where(s == float("-inf"), 0, s)
    return f


@triton.jit
def divisor(mass, NORMALIZE: tl.constexpr):
    """What f(s) is divided by to make a weight, from its sum."""
    return tl.where(mass == 0, 1, mass) if NORMALIZE == "softmax" else mass + EPSILON


@triton.jit
def quotient(a, b):
    """Rounded once, as `/` is not in float32."""
    return tl.div_rn(a, b) if a.dtype == tl.float32 else a / b


@triton.jit
def normalized(f, total, NORMALIZE: tl.constexpr):
    """Weights."""
    if NORMALIZE == "softmax":
        w = f * (1 / total)
    elif NORMALIZE == "none":
        w = f
    else:
        # a weight that is alone is 1 as far as PyTorch's is, and so has no gradient
        w = quotient(f, total)
    return w


@triton.jit
def slope(s, NORMALIZE: tl.constexpr):
    """f'(s) of what is not softmax."""
    if NORMALIZE == "relu":
        df = tl.where(s > 0, 1, 0).to(s.dtype)
    elif NORMALIZE == "sigmoid":
        f = sigmoid(s)
        df = f * (1 - f)
    else:
        df = sigmoid(s)
    return df


@triton.jit
def gradient(dw, s, w, total, NORMALIZE: tl.constexpr):
    """ds, from dw of whole windows; total is what f(s) was divided by."""
    if NORMALIZE == "none":
        ds = tl.where(s == float("-inf"), 0, dw)
    else:
        centred = dw - tl.sum(w * dw, 1, keep_dims=True)
        ds = w * centred if NORMALIZE == "softmax" else slope(s, NORMALIZE) * centred / total
    return ds
