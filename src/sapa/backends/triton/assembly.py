"""The kernels of `assemble`, whose weights are given: C channels in each of G groups."""

import triton
import triton.language as tl

from sapa.backends.triton.maps import dot, load, load_taps, store, store_taps
from sapa.backends.triton.tiles import channels, leftmost, points, points_of, split, strip, taps, window
from sapa.backends.triton.window import nans, products, store_sums

ONE = tl.constexpr(1)


@triton.jit
def assemble_kernel(
    out, v, w, out_strides, v_strides, w_strides, C, G, sizes, cutting,
    SY: tl.constexpr, SX: tl.constexpr, KH: tl.constexpr, KW: tl.constexpr,
    M: tl.constexpr, N: tl.constexpr, COLUMNS: tl.constexpr, T: tl.constexpr, BC: tl.constexpr,
    INDEX: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """y[p] = sum_t w[p, t] v[c(p) + t]."""
    number, first_block = split(tl.program_id(0), cutting)
    number, group = split(number, G)
    number, part = split(number, tl.cdiv(points_of(sizes, N, SY, SX), M))
    b, i, j = strip(number, sizes, N, INDEX)
    v, w, out = v + b * v_strides[0], w + b * w_strides[0], out + b * out_strides[0]
    left = leftmost(j, N, KW, COLUMNS)
    y, x, cell, is_point = points(i, j, part, sizes, N, SY, SX, M)
    start = cell + j - KW // 2 - left
    down, right, _, _, _ = window(i, left, 0, sizes, COLUMNS, T, KH)
    p, is_tap = taps(down, right, start, KH, KW)
    weights = load_taps(w, w_strides, (group * KH * KW + p).to(INDEX), y, x, is_tap & is_point[:, None], ACC)
    store_sums(
        out, out_strides, weights, v, v_strides, C, group, first_block, cutting, i, left, y, x, start, is_point,
        sizes, COLUMNS, KH, KW, BC, INDEX, ACC,
    )  # fmt: skip


@triton.jit
def scatter_kernel(
    out, a, w, out_strides, a_strides, w_strides, C, G, sizes,
    SY: tl.constexpr, SX: tl.constexpr, KH: tl.constexpr, KW: tl.constexpr,
    M: tl.constexpr, N: tl.constexpr, BC: tl.constexpr, INDEX: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """out[i] = sum_{p, t: c(p) + t = i} w[p, t] a[p]: dv of `assemble`, dv and dk of `attend`; gathered."""
    number, block = split(tl.program_id(0), tl.cdiv(C, BC))
    number, group = split(number, G)
    b, i, j = strip(number, sizes, N, INDEX)
    c, is_channel = channels(block, C, BC, INDEX)
    c += group * C
    w, a, out = w + b * w_strides[0], a + b * a_strides[0], out + b * out_strides[0]
    n = tl.arange(0, N)
    total = tl.zeros([N, BC], ACC)
    for down in range(KH):
        for part in range(tl.cdiv(points_of(sizes, N + KW - 1, SY, SX), M)):
            row, column = i - down + KH // 2, j - (KW - 1) + KW // 2
            y, x, cell, is_point = points(row, column, part, sizes, N + KW - 1, SY, SX, M)
            right = n[None, :] + KW - 1 - cell[:, None]
            there = is_point[:, None] & (right >= 0) & (right < KW)
            weights = load_taps(w, w_strides, ((group * KH + down) * KW + right).to(INDEX), y, x, there, ACC)
            of_points = load(a, a_strides, c, is_channel, y, x, is_point, ACC)
            total += dot(tl.trans(weights), tl.trans(of_points))
    # as in `store_again`
    if N > 1 and nans(total) == 1:
        total = point_by_point(
            a, w, a_strides, w_strides, c, is_channel, group, i, j + n, sizes, SY, SX, KH, KW, INDEX, ACC
        )  # fmt: skip
    store(out, out_strides, c, is_channel, tl.zeros_like(n) + i, j + n, j + n < sizes[3], tl.trans(total))


@triton.jit
def point_by_point(
    a, w, a_strides, w_strides, c, is_channel, group, i, j, sizes,
    SY: tl.constexpr, SX: tl.constexpr, KH: tl.constexpr, KW: tl.constexpr, INDEX: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """The sums of cells that see no other points than those that read them: [N, channels]."""
    total = tl.zeros([j.shape[0], c.shape[0]], ACC)
    # not KH * KW, which would be unrolled
    for t in range(sizes[4] * sizes[5]):
        down, right = split(t, KW)
        row, column = i - down + KH // 2, j - right + KW // 2
        for number in range(points_of(sizes, ONE, SY, SX)):
            y, x, _, is_point = points(row, column, number, sizes, ONE, SY, SX, ONE)
            weight = load_taps(w, w_strides, (group * KH * KW + t).to(INDEX), y, x, is_point[:, None], ACC)
            total += weight * tl.trans(load(a, a_strides, c, is_channel, y, x, is_point, ACC))
    return total


@triton.jit
def assemble_weights_kernel(
    dw, g, v, dw_strides, g_strides, v_strides, C, G, sizes,
    SY: tl.constexpr, SX: tl.constexpr, KH: tl.constexpr, KW: tl.constexpr,
    M: tl.constexpr, N: tl.constexpr, COLUMNS: tl.constexpr, T: tl.constexpr, BC: tl.constexpr,
    INDEX: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """dw[p, t] = <g[p], v[c(p) + t]>."""
    number, group = split(tl.program_id(0), G)
    number, part = split(number, tl.cdiv(points_of(sizes, N, SY, SX), M))
    b, i, j = strip(number, sizes, N, INDEX)
    group = group.to(tl.int64)
    dw += b * dw_strides[0]
    v, g = v + b * v_strides[0] + group * C * v_strides[1], g + b * g_strides[0] + group * C * g_strides[1]
    left = leftmost(j, N, KW, COLUMNS)
    y, x, cell, is_point = points(i, j, part, sizes, N, SY, SX, M)
    start = cell + j - KW // 2 - left
    down, right, _, _, _ = window(i, left, 0, sizes, COLUMNS, T, KH)
    p, is_tap = taps(down, right, start, KH, KW)
    found = products(g, g_strides, y, x, is_point, v, v_strides, i, left, C, sizes, COLUMNS, T, KH, BC, INDEX, ACC)
    store_taps(dw, dw_strides, (group * KH * KW + p).to(INDEX), y, x, is_tap & is_point[:, None], found)
