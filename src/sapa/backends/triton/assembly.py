"""The kernels of `assemble`, whose weights are given: C channels in each of G groups."""

import triton
import triton.language as tl

from sapa.backends.triton.maps import (
    gather,
    load_high,
    load_low,
    load_tap,
    spread,
    store_high,
    store_low,
    sums_of,
)
from sapa.backends.triton.tiles import block_of_cells, cells, channels, is_inside, points, split, turns
from sapa.backends.triton.window import products


@triton.jit
def assemble_kernel(
    out, v, w, out_strides, v_strides, w_strides, C, G, sizes, sharing,
    SY: tl.constexpr, SX: tl.constexpr, U: tl.constexpr, V: tl.constexpr, N: tl.constexpr,
    BC: tl.constexpr, LAST: tl.constexpr, INDEX: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """y[p] = sum_t w[p, t] v[c(p) + t]."""
    number, block = split(tl.program_id(0), tl.cdiv(C, BC))
    number, group = split(number, G)
    b, i, j, is_cell, turn = block_of_cells(number, sizes, sharing, N, INDEX)
    c, is_channel = channels(block, C, BC, INDEX)
    c += group * C
    v, w, out = v + b * v_strides[0], w + b * w_strides[0], out + b * out_strides[0]
    for part in range(turn, turns(sizes, SY, SX, U, V), sharing):
        y, x, is_point = points(i, j, is_cell, part, sizes, SY, SX, U, V)
        # in planar maps the weights have to be exchanged anyway
        total = sums_of(out, out_strides, c, C, y, x, is_point, ACC) if LAST else tl.zeros([U, BC, N, V], ACC)
        for ty in range(sizes[4]):
            for tx in range(sizes[5]):
                row, column = i + ty - sizes[4] // 2, j + tx - sizes[5] // 2
                value = load_low(v, v_strides, c, is_channel, row, column, is_inside(row, column, sizes), ACC)
                p = ((group * sizes[4] + ty) * sizes[5] + tx).to(INDEX)
                total += spread(load_tap(w, w_strides, p, y, x, is_point, ACC), value)
        store_high(out, out_strides, c, is_channel, y, x, is_point, total)


@triton.jit
def scatter_kernel(
    out, a, w, out_strides, a_strides, w_strides, C, G, sizes,
    SY: tl.constexpr, SX: tl.constexpr, U: tl.constexpr, V: tl.constexpr, N: tl.constexpr,
    BC: tl.constexpr, INDEX: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """out[i] = sum_{p, t: c(p) + t = i} w[p, t] a[p]: dv of `assemble`, dv and dk of `attend`; gathered."""
    number, block = split(tl.program_id(0), tl.cdiv(C, BC))
    number, group = split(number, G)
    b, number = split(number, tl.cdiv(sizes[2] * sizes[3], N))
    b = b.to(tl.int64)
    i, j, is_low = cells(number, sizes, N, INDEX)
    c, is_channel = channels(block, C, BC, INDEX)
    c += group * C
    w, a, out = w + b * w_strides[0], a + b * a_strides[0], out + b * out_strides[0]
    total = tl.zeros([BC, N], ACC)
    for ty in range(sizes[4]):
        for tx in range(sizes[5]):
            row, column = i - ty + sizes[4] // 2, j - tx + sizes[5] // 2
            is_cell = is_inside(row, column, sizes) & is_low
            p = ((group * sizes[4] + ty) * sizes[5] + tx).to(INDEX)
            for part in range(turns(sizes, SY, SX, U, V)):
                y, x, is_point = points(row, column, is_cell, part, sizes, SY, SX, U, V)
                weight = load_tap(w, w_strides, p, y, x, is_point, ACC)
                total += gather(weight, load_high(a, a_strides, c, is_channel, y, x, is_point, ACC))
    store_low(out, out_strides, c, is_channel, i, j, is_low, total)


@triton.jit
def assemble_weights_kernel(
    dw, g, v, dw_strides, g_strides, v_strides, C, G, sizes, sharing,
    SY: tl.constexpr, SX: tl.constexpr, U: tl.constexpr, V: tl.constexpr, N: tl.constexpr, T: tl.constexpr,
    BC: tl.constexpr, INDEX: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """dw[p, t] = <g[p], v[c(p) + t]>."""
    number, group = split(tl.program_id(0), G)
    b, i, j, is_cell, turn = block_of_cells(number, sizes, sharing, N, INDEX)
    group = group.to(tl.int64)
    dw += b * dw_strides[0]
    v, g = v + b * v_strides[0] + group * C * v_strides[1], g + b * g_strides[0] + group * C * g_strides[1]
    P = sizes[4] * sizes[5]
    t = tl.arange(0, T)
    for part in range(turn, turns(sizes, SY, SX, U, V), sharing):
        y, x, is_point = points(i, j, is_cell, part, sizes, SY, SX, U, V)
        found = products(g, g_strides, y, x, is_point, v, v_strides, i, j, C, sizes, T, BC, INDEX, ACC)
        store_high(dw, dw_strides, group * P + t, t < P, y, x, is_point, found)
