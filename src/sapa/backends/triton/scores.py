"""Inside the kernels: scores, and how they become weights, as `reference.py` has it."""

import triton
import triton.language as tl

from sapa.backends.triton.maps import dot, plane
from sapa.backends.triton.tiles import is_inside

EPSILON = tl.constexpr(1e-6)


@triton.jit
def score(
    q, q_strides, y, x, is_point, k, k_strides, i, j, rows, columns, ty, tx, D, sizes,
    BD: tl.constexpr, ONE: tl.constexpr, BORDER: tl.constexpr, INDEX: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """s[p, t] for points [U, N, V] and the low-res point [N] at their tap (ty, tx); -inf leaves the tap out."""
    is_low = is_inside(i, j, sizes)
    s = dot(q, q_strides, y, x, is_point, k, k_strides, i, j, is_low, D, BD, ONE, INDEX, ACC)
    if rows is not None:
        s += tl.load(rows + y * sizes[4] + ty, mask=is_point, other=0)
        s += tl.load(columns + x * sizes[5] + tx, mask=is_point, other=0)
    if BORDER == "mask":
        s = tl.where(is_low[None, :, None], s, float("-inf"))
    return s


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


@triton.jit
def score_gradient(
    state, g, g_strides, q, q_strides, y, x, is_point, k, k_strides, v, v_strides, i, j, is_low, rows, columns,
    ty, tx, C, D, sizes, BC: tl.constexpr, BD: tl.constexpr, ONE_C: tl.constexpr, ONE_D: tl.constexpr,
    NORMALIZE: tl.constexpr, BORDER: tl.constexpr, INDEX: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """ds[p, t] of points [U, N, V] and the low-res point [N] at their tap, from what `points_kernel` has left."""
    s = score(
        q, q_strides, y, x, is_point, k, k_strides, i, j, rows, columns, ty, tx, D, sizes,
        BD, ONE_D, BORDER, INDEX, ACC,
    )  # fmt: skip
    dw = dot(g, g_strides, y, x, is_point, v, v_strides, i, j, is_low, C, BC, ONE_C, INDEX, ACC)
    peak = tl.load(state + plane(0, y, x, sizes), mask=is_point, other=0)
    inverse = tl.load(state + plane(1, y, x, sizes), mask=is_point, other=0)
    delta = tl.load(state + plane(2, y, x, sizes), mask=is_point, other=0)
    w = activation(s, peak, NORMALIZE) * inverse
    return tl.where(is_point, slope(s, w, inverse, NORMALIZE) * (dw - delta), 0)
