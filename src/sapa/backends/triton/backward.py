"""The backward kernel of `attend`, which goes on with the `scatter` of `assembly.py`. Nothing is added from two sides.

With dw[p, t] = <g[p], v[c(p) + t]>, delta[p] = sum_t w[p, t] dw[p, t] and ds = f'(s) (dw - delta) / sum_t f(s):

    points   w and ds of whole windows, made again from q and k; dq[p] = sum_t ds[p, t] k[c(p) + t]
    scatter  dv from w and g; dk from ds and q. A low-res point is read by the cells i - t of the window, so that it
             knows the high-res points it gathers from

w and ds are what `scatter` needs of a point: it would make them again, with all channels of v, for each of its taps.
"""

import triton
import triton.language as tl

from sapa.backends.triton.maps import dot, load, load_once, store, store_taps
from sapa.backends.triton.scores import gradient
from sapa.backends.triton.tiles import channels, leftmost, points, points_of, split, strip, taps, window
from sapa.backends.triton.window import nans, products, store_again, store_sums, weights


@triton.jit
def points_kernel(
    dq, windows, g, q, k, v, dq_strides, windows_strides, g_strides, q_strides, k_strides, v_strides,
    rows, columns, C, D, sizes,
    SY: tl.constexpr, SX: tl.constexpr, KH: tl.constexpr, KW: tl.constexpr,
    M: tl.constexpr, N: tl.constexpr, COLUMNS: tl.constexpr, T: tl.constexpr, BC: tl.constexpr, BD: tl.constexpr,
    IS_SHALLOW: tl.constexpr, NORMALIZE: tl.constexpr, BORDER: tl.constexpr, INDEX: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    number, part = split(tl.program_id(0), tl.cdiv(points_of(sizes, N, SY, SX), M))
    b, i, j = strip(number, sizes, N, INDEX)
    q, k, v, g = q + b * q_strides[0], k + b * k_strides[0], v + b * v_strides[0], g + b * g_strides[0]
    dq, windows = dq + b * dq_strides[0], windows + b * windows_strides[0]
    left = leftmost(j, N, KW, COLUMNS)
    y, x, cell, is_point = points(i, j, part, sizes, N, SY, SX, M)
    start = cell + j - KW // 2 - left
    down, right, row, column, is_low = window(i, left, 0, sizes, COLUMNS, T, KH)
    p, is_tap = taps(down, right, start, KH, KW)
    d, is_channel = channels(0, D, BD, INDEX)
    if IS_SHALLOW:
        keys = load(k, k_strides, d, is_channel, row, column, is_low, ACC)
        s = dot(tl.trans(load_once(q, q_strides, d, is_channel, y, x, is_point, ACC)), keys)
    else:
        keys = None
        s = products(q, q_strides, y, x, is_point, k, k_strides, i, left, D, sizes, COLUMNS, T, KH, BD, INDEX, ACC)
    s, w, total = weights(
        s, rows, columns, y, x, is_point, down, right, start, is_tap, is_low, KH, KW, NORMALIZE, BORDER
    )  # fmt: skip
    dw = products(g, g_strides, y, x, is_point, v, v_strides, i, left, C, sizes, COLUMNS, T, KH, BC, INDEX, ACC)
    dw = tl.where(is_tap, dw, 0)
    ds = gradient(dw, s, w, total, NORMALIZE)
    there = is_tap & is_point[:, None]
    store_taps(windows, windows_strides, p.to(INDEX), y, x, there, w)
    store_taps(windows, windows_strides, p.to(INDEX) + KH * KW, y, x, there, ds)
    if IS_SHALLOW:
        found = dot(ds, tl.trans(keys))  # type: ignore[arg-type]
        store(dq, dq_strides, d, is_channel, y, x, is_point, tl.trans(found))
        store_again(
            nans(found), dq, dq_strides, ds, k, k_strides, D, 0, 0, 1, i, left, y, x, start, is_point,
            sizes, COLUMNS, KH, KW, BD, INDEX, ACC,
        )  # fmt: skip
    else:
        store_sums(
            dq, dq_strides, ds, k, k_strides, D, 0, 0, 1, i, left, y, x, start, is_point,
            sizes, COLUMNS, KH, KW, BD, INDEX, ACC,
        )  # fmt: skip
