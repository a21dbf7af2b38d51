"""Inside the kernels: what points and the window of their strip give together, [M, T].

A window is loaded once, as a matrix, and serves all points of the strip. Numbers of it that are no tap of a point, as
they belong to its neighbour's window, score -inf: a weight of 0.
"""

import triton
import triton.language as tl

from sapa.backends.triton.maps import dot, load, load_once, store
from sapa.backends.triton.scores import activation, divisor, normalized
from sapa.backends.triton.tiles import channels, split, window

WHOLE = tl.constexpr(32)  # numbers of a window that one product sums over; a larger one is cut into parts, as there
PART = tl.constexpr(16)  # registers are too few
WIDEST = tl.constexpr(256)  # that is multiplied at once, as it is in shared memory


@triton.jit
def products(
    a, a_strides, y, x, is_point, b, b_strides, i, left, C, sizes,
    COLUMNS: tl.constexpr, T: tl.constexpr, KH: tl.constexpr,
    BC: tl.constexpr, INDEX: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """<a[p], b[t]> over all channels: [M, T]."""
    M: tl.constexpr = x.shape[0]
    if T <= WIDEST:
        _, _, row, column, is_low = window(i, left, 0, sizes, COLUMNS, T, KH)
        total = tl.zeros([M, T], ACC)
        for block in range(tl.cdiv(C, BC)):
            c, is_channel = channels(block, C, BC, INDEX)
            of_points = load_once(a, a_strides, c, is_channel, y, x, is_point, ACC)
            of_window = load(b, b_strides, c, is_channel, row, column, is_low, ACC)
            # not before both are loaded: threads would wait for each other twice
            total += dot(tl.trans(of_points), of_window)
        return total
    else:
        parts = tl.zeros([M, T // WIDEST, WIDEST], ACC)
        for block in range(tl.cdiv(C, BC)):
            c, is_channel = channels(block, C, BC, INDEX)
            of_points = load_once(a, a_strides, c, is_channel, y, x, is_point, ACC)
            for part in range(T // WIDEST):
                _, _, row, column, is_low = window(i, left, part, sizes, COLUMNS, WIDEST, KH)
                of_part = load(b, b_strides, c, is_channel, row, column, is_low, ACC)
                found = dot(tl.trans(of_points), of_part)
                parts += tl.where((tl.arange(0, T // WIDEST) == part)[None, :, None], found[:, None, :], 0)
        return tl.reshape(parts, [M, T])


@triton.jit
def store_sums(
    out, out_strides, w, b, b_strides, C, group, first_block, cutting, i, left, y, x, start, is_point, sizes,
    COLUMNS: tl.constexpr, KH: tl.constexpr, KW: tl.constexpr, BC: tl.constexpr, INDEX: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """out[p] = sum_t w[p, t] b[t], BC channels at a time."""
    spoilt = 0
    for block in range(first_block, tl.cdiv(C, BC), cutting):
        c, is_channel = channels(block, C, BC, INDEX)
        c += group * C
        found = sums(w, b, b_strides, c, is_channel, i, left, sizes, COLUMNS, KH, ACC)
        store(out, out_strides, c, is_channel, y, x, is_point, tl.trans(found))
        spoilt = tl.maximum(spoilt, nans(found))
    store_again(
        spoilt, out, out_strides, w, b, b_strides, C, group, first_block, cutting, i, left, y, x, start, is_point,
        sizes, COLUMNS, KH, KW, BC, INDEX, ACC,
    )  # fmt: skip


@triton.jit
def store_again(
    spoilt, out, out_strides, w, b, b_strides, C, group, first_block, cutting, i, left, y, x, start, is_point, sizes,
    COLUMNS: tl.constexpr, KH: tl.constexpr, KW: tl.constexpr, BC: tl.constexpr, INDEX: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """If sums have a NaN, they are made again: a weight of 0 keeps out a neighbour's window, but not its infinities."""
    if COLUMNS > KW and spoilt == 1:
        for block in range(first_block, tl.cdiv(C, BC), cutting):
            c, is_channel = channels(block, C, BC, INDEX)
            c += group * C
            found = tap_by_tap(w, start, b, b_strides, c, is_channel, i, left, sizes, COLUMNS, KH, KW, ACC)
            store(out, out_strides, c, is_channel, y, x, is_point, tl.trans(found))


@triton.jit
def sums(
    w, b, b_strides, c, is_channel, i, left, sizes,
    COLUMNS: tl.constexpr, KH: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """sum_t w[p, t] b[t]: [M, channels]."""
    M: tl.constexpr = w.shape[0]
    T: tl.constexpr = w.shape[1]
    if T <= WHOLE:
        _, _, row, column, is_low = window(i, left, 0, sizes, COLUMNS, T, KH)
        total = dot(w, tl.trans(load(b, b_strides, c, is_channel, row, column, is_low, ACC)))
    else:
        parts = tl.reshape(w, [M, T // PART, PART])
        total = tl.zeros([M, c.shape[0]], ACC)
        for part in range(T // PART):
            _, _, row, column, is_low = window(i, left, part, sizes, COLUMNS, PART, KH)
            of_part = tl.sum(tl.where((tl.arange(0, T // PART) == part)[None, :, None], parts, 0), 1)
            total += dot(of_part, tl.trans(load(b, b_strides, c, is_channel, row, column, is_low, ACC)))
    return total


@triton.jit
def tap_by_tap(
    w, start, b, b_strides, c, is_channel, i, left, sizes,
    COLUMNS: tl.constexpr, KH: tl.constexpr, KW: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """`sums` that see no more of the window than the taps of each point."""
    total = tl.zeros([w.shape[0], c.shape[0]], ACC)
    # not KH * KW, which would be unrolled
    for t in range(sizes[4] * sizes[5]):
        down, right = split(t, KW)
        row, column = tl.zeros_like(start) + i + down - KH // 2, left + start + right
        is_low = (row >= 0) & (row < sizes[2]) & (column >= 0) & (column < sizes[3])
        is_tap = tl.arange(0, w.shape[1])[None, :] == (down * COLUMNS + start + right)[:, None]
        weight = tl.sum(tl.where(is_tap, w, 0), 1, keep_dims=True)
        total += weight * tl.trans(load(b, b_strides, c, is_channel, row, column, is_low, ACC))
    return total


@triton.jit
def nans(a):
    """1 if there are any, else 0."""
    return tl.max(tl.where(a == a, 0, 1))


@triton.jit
def weights(s, rows, columns, y, x, is_point, down, right, start, is_tap, is_low,
            KH: tl.constexpr, KW: tl.constexpr, NORMALIZE: tl.constexpr, BORDER: tl.constexpr):  # fmt: skip
    """Scores with their bias, weights, and what f(s) is divided by at each point, [M, 1]."""
    if rows is not None:
        there = is_tap & is_point[:, None]
        s += tl.load(rows + (y * KH)[:, None] + down[None, :], mask=there, other=0)
        s += tl.load(columns + (x * KW - start)[:, None] + right[None, :], mask=there, other=0)
    if BORDER == "mask":
        is_tap &= is_low[None, :]
    s = tl.where(is_tap, s, float("-inf"))
    # finite, so that a point all of whose taps are left out gets weights of 0 rather than of inf - inf
    least = -1.7976931348623157e308 if s.dtype == tl.float64 else -3.4028234663852886e38
    f = activation(s, tl.maximum(tl.max(s, 1, keep_dims=True), least), NORMALIZE)
    total = divisor(tl.sum(f, 1, keep_dims=True), NORMALIZE)
    return s, normalized(f, total, NORMALIZE), total
