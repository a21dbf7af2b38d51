"""The forward kernel of `attend`. A program makes the points of N cells, U times V of each at a turn."""

import triton
import triton.language as tl

from sapa.backends.triton.maps import load_low, spread, store_high, sums_of
from sapa.backends.triton.tiles import block_of_cells, channels, is_inside, points, split, turns
from sapa.backends.triton.window import by_tap, tap_of, weights


@triton.jit
def attend_kernel(
    out, q, k, v, out_strides, q_strides, k_strides, v_strides, rows, columns, C, D, sizes, sharing, cutting,
    SY: tl.constexpr, SX: tl.constexpr, U: tl.constexpr, V: tl.constexpr, N: tl.constexpr, T: tl.constexpr,
    BC: tl.constexpr, BD: tl.constexpr,
    NORMALIZE: tl.constexpr, BORDER: tl.constexpr, INDEX: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """y[p] = sum_t w[p, t] v[c(p) + t]: weights of whole windows first, then the channels, BC at a time."""
    number, first_block = split(tl.program_id(0), cutting)
    b, i, j, is_cell, first_part = block_of_cells(number, sizes, sharing, N, INDEX)
    q, k, v, out = q + b * q_strides[0], k + b * k_strides[0], v + b * v_strides[0], out + b * out_strides[0]
    for part in range(first_part, turns(sizes, SY, SX, U, V), sharing):
        y, x, is_point = points(i, j, is_cell, part, sizes, SY, SX, U, V)
        _, w, _ = weights(
            q, q_strides, y, x, is_point, k, k_strides, i, j, rows, columns, D, sizes,
            T, BD, NORMALIZE, BORDER, INDEX, ACC,
        )  # fmt: skip
        w = by_tap(w)
        for block in range(first_block, tl.cdiv(C, BC), cutting):
            c, is_channel = channels(block, C, BC, INDEX)
            total = sums_of(out, out_strides, c, C, y, x, is_point, ACC)
            for ty in range(sizes[4]):
                for tx in range(sizes[5]):
                    row, column = i + ty - sizes[4] // 2, j + tx - sizes[5] // 2
                    is_low = is_inside(row, column, sizes)
                    value = load_low(v, v_strides, c, is_channel, row, column, is_low, ACC)
                    total += spread(tap_of(w, ty * sizes[5] + tx), value)
            store_high(out, out_strides, c, is_channel, y, x, is_point, total)
