"""The kernels of `assemble`, whose weights are given: C channels in each of G groups."""

import triton
import triton.language as tl

from sapa.backends.triton.maps import gather, load_high, load_low, spread, store_high, store_low
from sapa.backends.triton.tiles import block_of_cells, cells, channels, is_inside, points, split, turns
from sapa.backends.triton.window import products


@triton.jit
def assemble_kernel(
    out, v, w, out_strides, v_strides, w_strides, C, G, sizes, sharing,
    SY: tl.constexpr, SX: tl.constexpr, U: tl.constexpr, V: tl.constexpr, N: tl.constexpr,
    BC: tl.constexpr, INDEX: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """y[p] = sum_t w[p, t] v[c(p) + t]."""
    number, block = split(tl.program_id(0), tl.cdiv(C, BC))
    number, g = split(number, G)
    b, i, j, is_cell, turn = block_of_cells(number, sizes, sharing, N, INDEX)
    c, is_channel = channels(block, C, BC, INDEX)
    c += g * C
    v, w, out = v + b * v_strides[0], w + b * w_strides[0], out + b * out_strides[0]
    for part in range(turn, turns(sizes, SY, SX, U, V), sharing):
        y, x, is_point = points(i, j, is_cell, part, sizes, SY, SX, U, V)
        total = tl.zeros([U, BC, N, V], ACC)
        for ty in range(sizes[4]):
            for tx in range(sizes[5]):
                r, s = i + ty - sizes[4] // 2, j + tx - sizes[5] // 2
                p = ((g * sizes[4] + ty) * sizes[5] + tx).to(INDEX)
                at = p * w_strides[1] + y * w_strides[2] + x * w_strides[3]
                weight = tl.load(w + at, mask=is_point, other=0).to(ACC)
                value = load_low(v, v_strides, c, is_channel, r, s, is_inside(r, s, sizes), ACC)
                total += spread(weight, value)
        store_high(out, out_strides, c, is_channel, y, x, is_point, total)


@triton.jit
def assemble_values_kernel(
    dv, g, w, dv_strides, g_strides, w_strides, C, G, sizes,
    SY: tl.constexpr, SX: tl.constexpr, U: tl.constexpr, V: tl.constexpr, N: tl.constexpr,
    BC: tl.constexpr, INDEX: tl.constexpr, ACC: tl.constexpr,
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
            for part in range(turns(sizes, SY, SX, U, V)):
                y, x, is_point = points(r, s, is_cell, part, sizes, SY, SX, U, V)
                at = p * w_strides[1] + y * w_strides[2] + x * w_strides[3]
                weight = tl.load(w + at, mask=is_point, other=0).to(ACC)
                total += gather(weight, load_high(g, g_strides, c, is_channel, y, x, is_point, ACC))
    store_low(dv, dv_strides, c, is_channel, i, j, is_low, total)


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
    t = tl.arange(0, T)
    p = (group * sizes[4] * sizes[5] + t) * dw_strides[1]
    for part in range(turn, turns(sizes, SY, SX, U, V), sharing):
        y, x, is_point = points(i, j, is_cell, part, sizes, SY, SX, U, V)
        found = products(g, g_strides, y, x, is_point, v, v_strides, i, j, C, sizes, T, BC, INDEX, ACC)
        at = (y * dw_strides[2] + x * dw_strides[3])[:, :, :, None] + p
        there = is_point[:, :, :, None] & (t < sizes[4] * sizes[5])
        tl.store(dw + at, found.to(dw.dtype.element_ty), mask=there)
