"""The backward kernel of `attend`, which goes on with the `scatter` of `assembly.py`. Nothing is added from two sides.

With dw[p, t] = <g[p], v[c(p) + t]>, delta[p] = sum_t w[p, t] dw[p, t] and ds = slope * (dw - delta):

    points   w and ds of whole windows, made again from q and k; dq[p] = sum_t ds[p, t] k[c(p) + t]
    scatter  dv from w and g; dk from ds and q. A low-res point is read by the cells i - t of the window, so that it
             knows the high-res points it gathers from

w and ds are what `scatter` needs of a point: it would make them again, with all channels of v, for each of its taps.
"""

import triton
import triton.language as tl

from sapa.backends.triton.maps import load_low, spread, store_high, sums_of
from sapa.backends.triton.scores import slope
from sapa.backends.triton.tiles import block_of_cells, channels, is_inside, points, turns
from sapa.backends.triton.window import by_tap, products, tap_of, weights


@triton.jit
def points_kernel(
    dq, windows, g, q, k, v, dq_strides, windows_strides, g_strides, q_strides, k_strides, v_strides,
    rows, columns, C, D, sizes, sharing,
    SY: tl.constexpr, SX: tl.constexpr, U: tl.constexpr, V: tl.constexpr, N: tl.constexpr, T: tl.constexpr,
    BC: tl.constexpr, BD: tl.constexpr,
    NORMALIZE: tl.constexpr, BORDER: tl.constexpr, INDEX: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    b, i, j, is_cell, turn = block_of_cells(tl.program_id(0), sizes, sharing, N, INDEX)
    q, k, v, g = q + b * q_strides[0], k + b * k_strides[0], v + b * v_strides[0], g + b * g_strides[0]
    dq, windows = dq + b * dq_strides[0], windows + b * windows_strides[0]
    P = sizes[4] * sizes[5]
    t = tl.arange(0, T).to(INDEX)
    for part in range(turn, turns(sizes, SY, SX, U, V), sharing):
        y, x, is_point = points(i, j, is_cell, part, sizes, SY, SX, U, V)
        s, w, inverse = weights(
            q, q_strides, y, x, is_point, k, k_strides, i, j, rows, columns, D, sizes,
            T, BD, NORMALIZE, BORDER, INDEX, ACC,
        )  # fmt: skip
        dw = products(g, g_strides, y, x, is_point, v, v_strides, i, j, C, sizes, T, BC, INDEX, ACC)
        if NORMALIZE != "none":
            dw -= tl.sum(w * dw, 1, keep_dims=True)
        ds = slope(s, w, inverse, NORMALIZE) * dw
        store_high(windows, windows_strides, t, t < P, y, x, is_point, w)
        store_high(windows, windows_strides, P + t, t < P, y, x, is_point, ds)
        ds = by_tap(ds)
        for block in range(tl.cdiv(D, BD)):
            d, is_channel = channels(block, D, BD, INDEX)
            total = sums_of(dq, dq_strides, d, D, y, x, is_point, ACC)
            for ty in range(sizes[4]):
                for tx in range(sizes[5]):
                    row, column = i + ty - sizes[4] // 2, j + tx - sizes[5] // 2
                    is_low = is_inside(row, column, sizes)
                    key = load_low(k, k_strides, d, is_channel, row, column, is_low, ACC)
                    total += spread(tap_of(ds, ty * sizes[5] + tx), key)
            store_high(dq, dq_strides, d, is_channel, y, x, is_point, total)
