"""The backward kernels. Each result is gathered by the program that owns it; nothing is added from two sides.

With dw[p, t] = <g[p], v[c(p) + t]>, delta[p] = sum_t w[p, t] dw[p, t] and ds = slope * (dw - delta):

    points   dq[p]    = sum_t ds[p, t] k[c(p) + t], and peak, 1 / sum and delta of each point for the others
    values   dv[i]    = sum_{p, t: c(p) + t = i} w[p, t] g[p]
    keys     dk[i]    = sum_{p, t: c(p) + t = i} ds[p, t] q[p]
    bias     drows[y] = sum_{x, tx} ds, and likewise for columns, as one sum for each point, added up afterwards

A low-res point i is read by the cells i - t of the window, so that it knows the high-res points it gathers from.
"""

import triton
import triton.language as tl

from sapa.backends.triton.maps import dot, gather, load_high, load_low, plane, spread, store_high, store_low
from sapa.backends.triton.scores import activation, add_tap, nothing_yet, one_over, score, score_gradient, slope
from sapa.backends.triton.tiles import block_of_points, cells, channels, is_inside, points, split, turns


@triton.jit
def points_kernel(
    dq, state, g, q, k, v, dq_strides, g_strides, q_strides, k_strides, v_strides, rows, columns, C, D, sizes,
    SY: tl.constexpr, SX: tl.constexpr, U: tl.constexpr, V: tl.constexpr, N: tl.constexpr,
    BC: tl.constexpr, BD: tl.constexpr, ONE_C: tl.constexpr, ONE_D: tl.constexpr,
    NORMALIZE: tl.constexpr, BORDER: tl.constexpr, INDEX: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """dq = sum_t slope dw k - delta sum_t slope k, in one pass over the taps: divided by the sum of f at the end."""
    number, block = split(tl.program_id(0), tl.cdiv(D, BD))
    b, i, j, y, x, is_point = block_of_points(number, sizes, SY, SX, U, V, N, INDEX)
    # of one block the compiler then knows that its keys are those of the scores
    d, is_channel = channels(0 if ONE_D else block, D, BD, INDEX)
    q, k, v = q + b * q_strides[0], k + b * k_strides[0], v + b * v_strides[0]
    g, dq = g + b * g_strides[0], dq + b * dq_strides[0]
    peak, mass = nothing_yet(x, ACC)
    delta = tl.zeros(x.shape, ACC)
    pulled = tl.zeros([U, BD, N, V], ACC)  # sum_t f' dw k
    mean = tl.zeros([U, BD, N, V], ACC)  # sum_t f' k
    for ty in range(sizes[4]):
        for tx in range(sizes[5]):
            r, s = i + ty - sizes[4] // 2, j + tx - sizes[5] // 2
            raw = score(
                q, q_strides, y, x, is_point, k, k_strides, r, s, rows, columns, ty, tx, D, sizes,
                BD, ONE_D, BORDER, INDEX, ACC,
            )  # fmt: skip
            is_low = is_inside(r, s, sizes)
            dw = dot(g, g_strides, y, x, is_point, v, v_strides, r, s, is_low, C, BC, ONE_C, INDEX, ACC)
            key = load_low(k, k_strides, d, is_channel, r, s, is_low, ACC)
            f, peak, mass, shrink = add_tap(raw, peak, mass, NORMALIZE)
            if NORMALIZE == "softmax":
                delta *= shrink
                pulled *= shrink[:, None, :, :]
                mean *= shrink[:, None, :, :]
            df = slope(raw, f, 1, NORMALIZE)
            pulled += spread(df * dw, key)
            if NORMALIZE != "none":
                delta += f * dw
                mean += spread(df, key)
    inverse = one_over(mass, NORMALIZE)
    delta *= inverse
    result = (pulled - delta[:, None, :, :] * mean) * inverse[:, None, :, :]
    store_high(dq, dq_strides, d, is_channel, y, x, is_point, result)
    if block == 0:
        state += b * 3 * sizes[0] * sizes[1]
        tl.store(state + plane(0, y, x, sizes), peak, mask=is_point)
        tl.store(state + plane(1, y, x, sizes), inverse, mask=is_point)
        tl.store(state + plane(2, y, x, sizes), delta, mask=is_point)


@triton.jit
def values_kernel(
    dv, state, g, q, k, dv_strides, g_strides, q_strides, k_strides, rows, columns, C, D, sizes,
    SY: tl.constexpr, SX: tl.constexpr, U: tl.constexpr, V: tl.constexpr, N: tl.constexpr,
    BC: tl.constexpr, BD: tl.constexpr, ONE_D: tl.constexpr,
    NORMALIZE: tl.constexpr, BORDER: tl.constexpr, INDEX: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    number, block = split(tl.program_id(0), tl.cdiv(C, BC))
    b, number = split(number, tl.cdiv(sizes[2] * sizes[3], N))
    b = b.to(tl.int64)
    i, j, is_low = cells(number, sizes, N, INDEX)
    c, is_channel = channels(block, C, BC, INDEX)
    q, k, g, dv = q + b * q_strides[0], k + b * k_strides[0], g + b * g_strides[0], dv + b * dv_strides[0]
    state += b * 3 * sizes[0] * sizes[1]
    total = tl.zeros([BC, N], ACC)
    for ty in range(sizes[4]):
        for tx in range(sizes[5]):
            r, s = i - ty + sizes[4] // 2, j - tx + sizes[5] // 2
            is_cell = is_inside(r, s, sizes) & is_low
            for part in range(turns(sizes, SY, SX, U, V)):
                y, x, is_point = points(r, s, is_cell, part, sizes, SY, SX, U, V)
                raw = score(
                    q, q_strides, y, x, is_point, k, k_strides, i, j, rows, columns, ty, tx, D, sizes,
                    BD, ONE_D, BORDER, INDEX, ACC,
                )  # fmt: skip
                peak = tl.load(state + plane(0, y, x, sizes), mask=is_point, other=0)
                inverse = tl.load(state + plane(1, y, x, sizes), mask=is_point, other=0)
                w = tl.where(is_point, activation(raw, peak, NORMALIZE) * inverse, 0)
                total += gather(w, load_high(g, g_strides, c, is_channel, y, x, is_point, ACC))
    store_low(dv, dv_strides, c, is_channel, i, j, is_low, total)


@triton.jit
def keys_kernel(
    dk, state, g, q, k, v, dk_strides, g_strides, q_strides, k_strides, v_strides, rows, columns, C, D, sizes,
    SY: tl.constexpr, SX: tl.constexpr, U: tl.constexpr, V: tl.constexpr, N: tl.constexpr,
    BC: tl.constexpr, BD: tl.constexpr, ONE_C: tl.constexpr, ONE_D: tl.constexpr,
    NORMALIZE: tl.constexpr, BORDER: tl.constexpr, INDEX: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    number, block = split(tl.program_id(0), tl.cdiv(D, BD))
    b, number = split(number, tl.cdiv(sizes[2] * sizes[3], N))
    b = b.to(tl.int64)
    i, j, is_low = cells(number, sizes, N, INDEX)
    d, is_channel = channels(block, D, BD, INDEX)
    q, k, v = q + b * q_strides[0], k + b * k_strides[0], v + b * v_strides[0]
    g, dk = g + b * g_strides[0], dk + b * dk_strides[0]
    state += b * 3 * sizes[0] * sizes[1]
    total = tl.zeros([BD, N], ACC)
    for ty in range(sizes[4]):
        for tx in range(sizes[5]):
            r, s = i - ty + sizes[4] // 2, j - tx + sizes[5] // 2
            is_cell = is_inside(r, s, sizes) & is_low
            for part in range(turns(sizes, SY, SX, U, V)):
                y, x, is_point = points(r, s, is_cell, part, sizes, SY, SX, U, V)
                ds = score_gradient(
                    state, g, g_strides, q, q_strides, y, x, is_point,
                    k, k_strides, v, v_strides, i, j, is_low, rows, columns, ty, tx, C, D, sizes,
                    BC, BD, ONE_C, ONE_D, NORMALIZE, BORDER, INDEX, ACC,
                )  # fmt: skip
                total += gather(ds, load_high(q, q_strides, d, is_channel, y, x, is_point, ACC))
    store_low(dk, dk_strides, d, is_channel, i, j, is_low, total)


@triton.jit
def bias_kernel(
    parts, state, g, q, k, v, g_strides, q_strides, k_strides, v_strides, rows, columns, C, D, sizes,
    AXIS: tl.constexpr, SY: tl.constexpr, SX: tl.constexpr, U: tl.constexpr, V: tl.constexpr, N: tl.constexpr,
    BC: tl.constexpr, BD: tl.constexpr, ONE_C: tl.constexpr, ONE_D: tl.constexpr,
    NORMALIZE: tl.constexpr, BORDER: tl.constexpr, INDEX: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """For each point the sums of ds over the other axis of the window: parts [B, Kh, H, W], or Kw for AXIS 1."""
    b, i, j, y, x, is_point = block_of_points(tl.program_id(0), sizes, SY, SX, U, V, N, INDEX)
    K = sizes[4 + AXIS]
    state += b * 3 * sizes[0] * sizes[1]
    parts += b * K * sizes[0] * sizes[1]
    q, k, v, g = q + b * q_strides[0], k + b * k_strides[0], v + b * v_strides[0], g + b * g_strides[0]
    for own in range(K):
        total = tl.zeros(x.shape, ACC)
        for other in range(sizes[5 - AXIS]):
            if AXIS == 0:
                ty, tx = own, other
            else:
                ty, tx = other, own
            r, s = i + ty - sizes[4] // 2, j + tx - sizes[5] // 2
            total += score_gradient(
                state, g, g_strides, q, q_strides, y, x, is_point, k, k_strides, v, v_strides, r, s,
                is_inside(r, s, sizes), rows, columns, ty, tx, C, D, sizes,
                BC, BD, ONE_C, ONE_D, NORMALIZE, BORDER, INDEX, ACC,
            )  # fmt: skip
        tl.store(parts + plane(own, y, x, sizes), total, mask=is_point)
