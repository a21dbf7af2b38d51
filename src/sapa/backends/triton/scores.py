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
def slope(s, w, inverse, NORMALIZE: tl.constexpr):
    """What ds = slope * (dw - delta) needs besides: f'(s) divided by the sum, as w is f(s) divided by it."""
    if NORMALIZE == "softmax":
        df = w
    elif NORMALIZE == "relu":
        df = tl.where(s > 0, inverse, 0)
    elif NORMALIZE == "sigmoid":
        f = sigmoid(s)
        df = f * (1 - f) * inverse
    elif NORMALIZE == "softplus":
        df = sigmoid(s) * inverse
    else:
        df = tl.where(s == float("-inf"), 0, inverse)
    return df


@triton.jit
def one_over(mass, NORMALIZE: tl.constexpr):
    """What f(s) is multiplied with to make a weight."""
    if NORMALIZE == "softmax":
        inverse = 1 / tl.where(mass == 0, 1, mass)
    elif NORMALIZE == "none":
        inverse = tl.zeros_like(mass) + 1
    else:
        inverse = 1 / (mass + EPSILON)
    return inverse
