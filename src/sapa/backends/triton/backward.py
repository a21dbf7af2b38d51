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

from sapa.backends.triton.scores import activation, score, slope, sums
from sapa.backends.triton.tiles import (
    block_of_points,
    cells,
    channels,
    dot,
    high,
    is_inside,
    low,
    phases,
    points,
    split,
)


@triton.jit
def points_kernel(
    dq, state, g, q, k, v, dq_strides, g_strides, q_strides, k_strides, v_strides, rows, columns, C, D, sizes,
    U: tl.constexpr, N: tl.constexpr, BC: tl.constexpr, BD: tl.constexpr, ONE_C: tl.constexpr, ONE_D: tl.constexpr,
    NORMALIZE: tl.constexpr, BORDER: tl.constexpr, INDEX: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """dq = sum_t slope dw k - delta sum_t slope k, so that one pass over the taps makes delta and dq together."""
    number, block = split(tl.program_id(0), tl.cdiv(D, BD))
    b, i, j, y, x, is_point = block_of_points(number, sizes, U, N, INDEX)
    d, is_channel = channels(block, D, BD, INDEX)
    place = (b * sizes[0] + y) * sizes[1] + x
    q, k, v = q + b * q_strides[0], k + b * k_strides[0], v + b * v_strides[0]
    g, dq = g + b * g_strides[0], dq + b * dq_strides[0]
    peak, inverse = sums(
        q, q_strides, y, x, is_point, k, k_strides, i, j, rows, columns, D, sizes,
        U, N, BD, ONE_D, NORMALIZE, BORDER, INDEX, ACC,
    )  # fmt: skip
    delta = tl.zeros([U, N], ACC)
    pulled = tl.zeros([U, BD, N], ACC)  # sum_t slope dw k
    mean = tl.zeros([U, BD, N], ACC)  # sum_t slope k
    for ty in range(sizes[4]):
        for tx in range(sizes[5]):
            r, s = i + ty - sizes[4] // 2, j + tx - sizes[5] // 2
            raw = score(
                q, q_strides, y, x, is_point, k, k_strides, r, s, rows, columns, ty, tx, D, sizes,
                BD, ONE_D, BORDER, INDEX, ACC,
            )  # fmt: skip
            is_low = is_inside(r, s, sizes)
            w = activation(raw, peak, NORMALIZE) * inverse
            dw = dot(g, g_strides, y, x, is_point, v, v_strides, r, s, is_low, C, BC, ONE_C, INDEX, ACC)
            df = slope(raw, w, inverse, NORMALIZE)
            key = tl.load(k + low(k_strides, d, r, s), mask=is_channel[:, None] & is_low[None, :], other=0).to(ACC)
            pulled += (df * dw)[:, None, :] * key[None, :, :]
            if NORMALIZE != "none":
                delta += w * dw
                mean += df[:, None, :] * key[None, :, :]
    there = is_channel[None, :, None] & is_point[:, None, :]
    result = pulled - delta[:, None, :] * mean
    tl.store(dq + high(dq_strides, d, y, x), result.to(dq.dtype.element_ty), mask=there)
    if block == 0:
        tl.store(state + 3 * place, peak, mask=is_point)
        tl.store(state + 3 * place + 1, inverse, mask=is_point)
        tl.store(state + 3 * place + 2, delta, mask=is_point)


@triton.jit
def values_kernel(
    dv, state, g, q, k, dv_strides, g_strides, q_strides, k_strides, rows, columns, C, D, sizes,
    U: tl.constexpr, N: tl.constexpr, BC: tl.constexpr, BD: tl.constexpr, ONE_D: tl.constexpr,
    NORMALIZE: tl.constexpr, BORDER: tl.constexpr, INDEX: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    number, block = split(tl.program_id(0), tl.cdiv(C, BC))
    b, number = split(number, tl.cdiv(sizes[2] * sizes[3], N))
    b = b.to(tl.int64)
    i, j, is_low = cells(number, sizes, N, INDEX)
    c, is_channel = channels(block, C, BC, INDEX)
    q, k, g, dv = q + b * q_strides[0], k + b * k_strides[0], g + b * g_strides[0], dv + b * dv_strides[0]
    total = tl.zeros([BC, N], ACC)
    for ty in range(sizes[4]):
        for tx in range(sizes[5]):
            r, s = i - ty + sizes[4] // 2, j - tx + sizes[5] // 2
            is_cell = is_inside(r, s, sizes) & is_low
            for part in range(tl.cdiv(phases(sizes), U)):
                y, x, is_point = points(r, s, is_cell, part, sizes, U)
                place = (b * sizes[0] + y) * sizes[1] + x
                raw = score(
                    q, q_strides, y, x, is_point, k, k_strides, i, j, rows, columns, ty, tx, D, sizes,
                    BD, ONE_D, BORDER, INDEX, ACC,
                )  # fmt: skip
                peak = tl.load(state + 3 * place, mask=is_point, other=0)
                inverse = tl.load(state + 3 * place + 1, mask=is_point, other=0)
                w = tl.where(is_point, activation(raw, peak, NORMALIZE) * inverse, 0)
                there = is_channel[None, :, None] & is_point[:, None, :]
                pull = tl.load(g + high(g_strides, c, y, x), mask=there, other=0).to(ACC)
                total += tl.sum(w[:, None, :] * pull, 0)
    there = is_channel[:, None] & is_low[None, :]
    tl.store(dv + low(dv_strides, c, i, j), total.to(dv.dtype.element_ty), mask=there)


@triton.jit
def keys_kernel(
    dk, state, g, q, k, v, dk_strides, g_strides, q_strides, k_strides, v_strides, rows, columns, C, D, sizes,
    U: tl.constexpr, N: tl.constexpr, BC: tl.constexpr, BD: tl.constexpr, ONE_C: tl.constexpr, ONE_D: tl.constexpr,
    NORMALIZE: tl.constexpr, BORDER: tl.constexpr, INDEX: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    number, block = split(tl.program_id(0), tl.cdiv(D, BD))
    b, number = split(number, tl.cdiv(sizes[2] * sizes[3], N))
    b = b.to(tl.int64)
    i, j, is_low = cells(number, sizes, N, INDEX)
    d, is_channel = channels(block, D, BD, INDEX)
    q, k, v = q + b * q_strides[0], k + b * k_strides[0], v + b * v_strides[0]
    g, dk = g + b * g_strides[0], dk + b * dk_strides[0]
    total = tl.zeros([BD, N], ACC)
    for ty in range(sizes[4]):
        for tx in range(sizes[5]):
            r, s = i - ty + sizes[4] // 2, j - tx + sizes[5] // 2
            is_cell = is_inside(r, s, sizes) & is_low
            for part in range(tl.cdiv(phases(sizes), U)):
                y, x, is_point = points(r, s, is_cell, part, sizes, U)
                ds = score_gradient(
                    state, (b * sizes[0] + y) * sizes[1] + x, g, g_strides, q, q_strides, y, x, is_point,
                    k, k_strides, v, v_strides, i, j, is_low, rows, columns, ty, tx, C, D, sizes,
                    BC, BD, ONE_C, ONE_D, NORMALIZE, BORDER, INDEX, ACC,
                )  # fmt: skip
                there = is_channel[None, :, None] & is_point[:, None, :]
                query = tl.load(q + high(q_strides, d, y, x), mask=there, other=0).to(ACC)
                total += tl.sum(ds[:, None, :] * query, 0)
    there = is_channel[:, None] & is_low[None, :]
    tl.store(dk + low(dk_strides, d, i, j), total.to(dk.dtype.element_ty), mask=there)


@triton.jit
def bias_kernel(
    parts, state, g, q, k, v, g_strides, q_strides, k_strides, v_strides, rows, columns, C, D, sizes,
    AXIS: tl.constexpr, U: tl.constexpr, N: tl.constexpr, BC: tl.constexpr, BD: tl.constexpr, ONE_C: tl.constexpr,
    ONE_D: tl.constexpr, NORMALIZE: tl.constexpr, BORDER: tl.constexpr, INDEX: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """For each point the sums of ds over the other axis of the window: parts [B, H, W, Kh], or Kw for AXIS 1."""
    b, i, j, y, x, is_point = block_of_points(tl.program_id(0), sizes, U, N, INDEX)
    place = (b * sizes[0] + y) * sizes[1] + x
    q, k, v, g = q + b * q_strides[0], k + b * k_strides[0], v + b * v_strides[0], g + b * g_strides[0]
    for own in range(sizes[4 + AXIS]):
        total = tl.zeros([U, N], ACC)
        for other in range(sizes[5 - AXIS]):
            if AXIS == 0:
                ty, tx = own, other
            else:
                ty, tx = other, own
            r, s = i + ty - sizes[4] // 2, j + tx - sizes[5] // 2
            total += score_gradient(
                state, place, g, g_strides, q, q_strides, y, x, is_point, k, k_strides, v, v_strides, r, s,
                is_inside(r, s, sizes), rows, columns, ty, tx, C, D, sizes,
                BC, BD, ONE_C, ONE_D, NORMALIZE, BORDER, INDEX, ACC,
            )  # fmt: skip
        tl.store(parts + place * sizes[4 + AXIS] + own, total, mask=is_point)


@triton.jit
def score_gradient(
    state, place, g, g_strides, q, q_strides, y, x, is_point, k, k_strides, v, v_strides, i, j, is_low, rows, columns,
    ty, tx, C, D, sizes, BC: tl.constexpr, BD: tl.constexpr, ONE_C: tl.constexpr, ONE_D: tl.constexpr,
    NORMALIZE: tl.constexpr, BORDER: tl.constexpr, INDEX: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """ds[p, t] of points [U, N] and the low-res point [N] at their tap, from what `points_kernel` has left."""
    s = score(
        q, q_strides, y, x, is_point, k, k_strides, i, j, rows, columns, ty, tx, D, sizes,
        BD, ONE_D, BORDER, INDEX, ACC,
    )  # fmt: skip
    dw = dot(g, g_strides, y, x, is_point, v, v_strides, i, j, is_low, C, BC, ONE_C, INDEX, ACC)
    peak = tl.load(state + 3 * place, mask=is_point, other=0)
    inverse = tl.load(state + 3 * place + 1, mask=is_point, other=0)
    delta = tl.load(state + 3 * place + 2, mask=is_point, other=0)
    w = activation(s, peak, NORMALIZE) * inverse
    return tl.where(is_point, slope(s, w, inverse, NORMALIZE) * (dw - delta), 0)


@triton.jit
def assemble_weights_kernel(
    dw, g, v, dw_strides, g_strides, v_strides, C, G, sizes,
    U: tl.constexpr, N: tl.constexpr, BC: tl.constexpr, ONE_C: tl.constexpr, INDEX: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """dw[p, t] = <g[p], v[c(p) + t]> over the C channels of each group."""
    number, group = split(tl.program_id(0), G)
    b, i, j, y, x, is_point = block_of_points(number, sizes, U, N, INDEX)
    group = group.to(tl.int64)
    dw += b * dw_strides[0]
    v, g = v + b * v_strides[0] + group * C * v_strides[1], g + b * g_strides[0] + group * C * g_strides[1]
    for ty in range(sizes[4]):
        for tx in range(sizes[5]):
            r, s = i + ty - sizes[4] // 2, j + tx - sizes[5] // 2
            p = (group * sizes[4] + ty) * sizes[5] + tx
            is_low = is_inside(r, s, sizes)
            result = dot(g, g_strides, y, x, is_point, v, v_strides, r, s, is_low, C, BC, ONE_C, INDEX, ACC)
            at = p * dw_strides[1] + y * dw_strides[2] + x * dw_strides[3]
            tl.store(dw + at, result.to(dw.dtype.element_ty), mask=is_point)


@triton.jit
def assemble_values_kernel(
    dv, g, w, dv_strides, g_strides, w_strides, C, G, sizes,
    U: tl.constexpr, N: tl.constexpr, BC: tl.constexpr, INDEX: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """dv[i] = sum_{p, t: c(p) + t = i} w[p, t] g[p], gathered."""
    number, block = split(tl.program_id(0), tl.cdiv(C, BC))
    number, group = split(number, G)
    b, number = split(number, tl.cdiv(sizes[2] * sizes[3], N))
    b = b.to(tl.int64)
    i, j, is_low = cells(number, sizes, N, INDEX)
    c, is_channel = channels(block, C, BC, INDEX)
    c += group * C
    w, g, dv = w + b * w_strides[0], g + b * g_strides[0], dv + b * dv_strides[0]
    total = tl.zeros([BC, N], ACC)
    for ty in range(sizes[4]):
        for tx in range(sizes[5]):
            r, s = i - ty + sizes[4] // 2, j - tx + sizes[5] // 2
            is_cell = is_inside(r, s, sizes) & is_low
            p = ((group * sizes[4] + ty) * sizes[5] + tx).to(INDEX)
            for part in range(tl.cdiv(phases(sizes), U)):
                y, x, is_point = points(r, s, is_cell, part, sizes, U)
                at = p * w_strides[1] + y * w_strides[2] + x * w_strides[3]
                weight = tl.load(w + at, mask=is_point, other=0).to(ACC)
                there = is_channel[None, :, None] & is_point[:, None, :]
                pull = tl.load(g + high(g_strides, c, y, x), mask=there, other=0).to(ACC)
                total += tl.sum(weight[:, None, :] * pull, 0)
    there = is_channel[:, None] & is_low[None, :]
    tl.store(dv + low(dv_strides, c, i, j), total.to(dv.dtype.element_ty), mask=there)
