"""The forward kernel of `attend`. A program makes up to M points of a strip of N cells."""

import triton
import triton.language as tl

from sapa.backends.triton.tiles import leftmost, points, points_of, split, strip, taps, window
from sapa.backends.triton.window import products, store_sums, weights


@triton.jit
def attend_kernel(
    out, q, k, v, out_strides, q_strides, k_strides, v_strides, rows, columns, C, D, sizes, cutting,
    SY: tl.constexpr, SX: tl.constexpr, KH: tl.constexpr, KW: tl.constexpr,
    M: tl.constexpr, N: tl.constexpr, COLUMNS: tl.constexpr, T: tl.constexpr, BC: tl.constexpr, BD: tl.constexpr,
    NORMALIZE: tl.constexpr, BORDER: tl.constexpr, INDEX: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """y[p] = sum_t w[p, t] v[c(p) + t]: weights of the whole window first, then the channels, BC at a time."""
    number, first_block = split(tl.program_id(0), cutting)
    number, part = split(number, tl.cdiv(points_of(sizes, N, SY, SX), M))
    b, i, j = strip(number, sizes, N, INDEX)
    q, k, v, out = q + b * q_strides[0], k + b * k_strides[0], v + b * v_strides[0], out + b * out_strides[0]
    left = leftmost(j, N, KW, COLUMNS)
    y, x, cell, is_point = points(i, j, part, sizes, N, SY, SX, M)
    start = cell + j - KW // 2 - left
    down, right, _, _, is_low = window(i, left, 0, sizes, COLUMNS, T, KH)
    s = products(q, q_strides, y, x, is_point, k, k_strides, i, left, D, sizes, COLUMNS, T, KH, BD, INDEX, ACC)
    _, is_tap = taps(down, right, start, KH, KW)
    _, w, _ = weights(
        s, rows, columns, y, x, is_point, down, right, start, is_tap, is_low, KH, KW, NORMALIZE, BORDER
    )  # fmt: skip
    store_sums(
        out, out_strides, w, v, v_strides, C, 0, first_block, cutting, i, left, y, x, start, is_point, sizes,
        COLUMNS, KH, KW, BC, INDEX, ACC,
    )  # fmt: skip
