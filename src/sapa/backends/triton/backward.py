"""The backward kernels. Each result is gathered by the program that owns it; nothing is added from two sides.

With dw[p, t] = <g[p], v[c(p) + t]>, delta[p] = sum_t w[p, t] dw[p, t] and ds = slope * (dw - delta):

    points   dq[p]    = sum_t ds[p, t] k[c(p) + t], and peak, 1 / sum and delta of each point for the others
    values   dv[i]    = sum_{p, t: c(p) + t = i} w[p, t] g[p]
    keys     dk[i]    = sum_{p, t: c(p) + t = i} ds[p, t] q[p]

With a bias, drows[y] = sum_{x, tx} ds, and likewise for columns: `points` makes a sum over tx and one over ty for each
point, and PyTorch adds them up.

A low-res point i is read by the cells i - t of the window, so that it knows the high-res points it gathers from.
"""

import triton
import triton.language as tl

from sapa.backends.triton.maps import gather, load_high, load_low, plane, spread, store_high, store_low
from sapa.backends.triton.scores import activation, score, score_gradient, slope
from sapa.backends.triton.tiles import block_of_cells, cells, channels, is_inside, points, split, turns
from sapa.backends.triton.window import products, tap_of, taps, weights


@triton.jit
def points_kernel(
    dq, parts, state, g, q, k, v, dq_strides, g_strides, q_strides, k_strides, v_strides, rows, columns,
    C, D, sizes, sharing,
    SY: tl.constexpr, SX: tl.constexpr, U: tl.constexpr, V: tl.constexpr, N: tl.constexpr, T: tl.constexpr,
    BC: tl.constexpr, BD: tl.constexpr,
    NORMALIZE: tl.constexpr, BORDER: tl.constexpr, INDEX: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """ds of whole windows, and what follows from it for a point: dq, and the parts of a bias, [B, Kh + Kw, H, W]."""
    b, i, j, is_cell, turn = block_of_cells(tl.program_id(0), sizes, sharing, N, INDEX)
    q, k, v = q + b * q_strides[0], k + b * k_strides[0], v + b * v_strides[0]
    g, dq = g + b * g_strides[0], dq + b * dq_strides[0]
    state += b * 3 * sizes[0] * sizes[1]
    for part in range(turn, turns(sizes, SY, SX, U, V), sharing):
        y, x, is_point = points(i, j, is_cell, part, sizes, SY, SX, U, V)
        s, w, peak, inverse = weights(
            q, q_strides, y, x, is_point, k, k_strides, i, j, rows, columns, D, sizes,
            T, BD, NORMALIZE, BORDER, INDEX, ACC,
        )  # fmt: skip
        dw = products(g, g_strides, y, x, is_point, v, v_strides, i, j, C, sizes, T, BC, INDEX, ACC)
        delta = tl.zeros_like(inverse) if NORMALIZE == "none" else tl.sum(w * dw, 3)
        ds = slope(s, w, inverse[:, :, :, None], NORMALIZE) * (dw - tl.expand_dims(delta, 3))
        tl.store(state + plane(0, y, x, sizes), peak, mask=is_point)
        tl.store(state + plane(1, y, x, sizes), inverse, mask=is_point)
        tl.store(state + plane(2, y, x, sizes), delta, mask=is_point)
        for block in range(tl.cdiv(D, BD)):
            d, is_channel = channels(block, D, BD, INDEX)
            total = tl.zeros([U, BD, N, V], ACC)
            for ty in range(sizes[4]):
                for tx in range(sizes[5]):
                    r, c = i + ty - sizes[4] // 2, j + tx - sizes[5] // 2
                    key = load_low(k, k_strides, d, is_channel, r, c, is_inside(r, c, sizes), ACC)
                    total += spread(tap_of(ds, ty * sizes[5] + tx), key)
            store_high(dq, dq_strides, d, is_channel, y, x, is_point, total)
        if parts is not None:
            ty, tx, is_tap = taps(sizes, T)
            at = parts + b * (sizes[4] + sizes[5]) * sizes[0] * sizes[1]
            for row in range(sizes[4]):
                found = tl.sum(tl.where(is_tap & (ty == row), ds, 0), 3)
                tl.store(at + plane(row, y, x, sizes), found, mask=is_point)
            for column in range(sizes[5]):
                found = tl.sum(tl.where(is_tap & (tx == column), ds, 0), 3)
                tl.store(at + plane(sizes[4] + column, y, x, sizes), found, mask=is_point)


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
