"""Inside the kernels: whole windows of points, [U, T, N, V], with T taps: as many as there are, to a power of two.

Taps stand where the channels of a map do, so that a sum over channels is already where its tap belongs. All taps are
made for one block of channels before the next: each number of a query is loaded once, however deep it is, and weights
are made once for all channels of the values. A tap that the window does not have scores -inf.
"""

import triton
import triton.language as tl

from sapa.backends.triton.maps import inner, load_low, load_once
from sapa.backends.triton.scores import activation, one_over
from sapa.backends.triton.tiles import channels, is_inside, split

MOST_GATHERED = tl.constexpr(128)  # taps: of more, the compiler makes too many steps


@triton.jit
def taps(sizes, T: tl.constexpr):
    """Row and column of each tap in the window, and whether it is one: [T] each."""
    t = tl.arange(0, T)
    ty, tx = split(t, sizes[5])
    return ty, tx, t < sizes[4] * sizes[5]


@triton.jit
def by_tap(window):
    """[U, T, N, V] to [U, N, V, T].

    The sum, of one number each, is for the compiler: behind it, windows are laid out anew, once, with their taps in
    neighbouring threads. Else they stay as the scores were made, and each tap is exchanged between all threads.
    """
    return tl.sum(tl.expand_dims(tl.permute(window, (0, 2, 3, 1)), 0), 0)


@triton.jit
def tap_of(window, number):
    """One tap of each window [U, N, V, T]: [U, 1, N, V]."""
    if window.shape[3] > MOST_GATHERED:
        found = tl.sum(tl.where(tl.arange(0, window.shape[3]) == number, window, 0), 3)
    else:
        place = tl.full([window.shape[0], window.shape[1], window.shape[2], 1], 0, tl.int32) + number
        found = tl.reshape(tl.gather(window, place, 3), [window.shape[0], window.shape[1], window.shape[2]])
    return tl.expand_dims(found, 1)


@triton.jit
def products(
    a, a_strides, y, x, is_point, b, b_strides, i, j, C, sizes,
    T: tl.constexpr, BC: tl.constexpr, INDEX: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """<a[p], b[c(p) + t]> over all channels for all taps, of points [U, N, V] in cells [N]."""
    t = tl.arange(0, T)
    total = tl.zeros([x.shape[0], T, x.shape[1], x.shape[2]], ACC)
    for n in range(tl.cdiv(C, BC)):
        c, is_channel = channels(n, C, BC, INDEX)
        pull = load_once(a, a_strides, c, is_channel, y, x, is_point, ACC)
        for ty in range(sizes[4]):
            for tx in range(sizes[5]):
                row, column = i + ty - sizes[4] // 2, j + tx - sizes[5] // 2
                is_low = is_inside(row, column, sizes)
                found = inner(pull, load_low(b, b_strides, c, is_channel, row, column, is_low, ACC))
                total += tl.where((t == ty * sizes[5] + tx)[None, :, None, None], found, 0)
    return total


@triton.jit
def weights(
    q, q_strides, y, x, is_point, k, k_strides, i, j, rows, columns, D, sizes,
    T: tl.constexpr, BD: tl.constexpr,
    NORMALIZE: tl.constexpr, BORDER: tl.constexpr, INDEX: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """Scores and weights of whole windows, and one over the sum of f(s) of each point, [U, 1, N, V]."""
    ty, tx, is_tap = taps(sizes, T)
    s = products(q, q_strides, y, x, is_point, k, k_strides, i, j, D, sizes, T, BD, INDEX, ACC)
    if rows is not None:
        there = is_point[:, None, :, :] & is_tap[None, :, None, None]
        s += tl.load(rows + (y * sizes[4])[:, None, :, :] + ty[None, :, None, None], mask=there, other=0)
        s += tl.load(columns + (x * sizes[5])[:, None, :, :] + tx[None, :, None, None], mask=there, other=0)
    is_there = is_tap[:, None]
    if BORDER == "mask":
        row, column = i[None, :] + (ty - sizes[4] // 2)[:, None], j[None, :] + (tx - sizes[5] // 2)[:, None]
        is_there &= is_inside(row, column, sizes)
    s = tl.where(is_there[None, :, :, None], s, float("-inf"))
    # finite, so that a point all of whose taps are left out gets weights of 0 rather than of inf - inf
    least = -1.7976931348623157e308 if tl.float64 == ACC else -3.4028234663852886e38
    f = activation(s, tl.maximum(tl.max(s, 1, keep_dims=True), least), NORMALIZE)
    inverse = one_over(tl.sum(f, 1, keep_dims=True), NORMALIZE)
    return s, f * inverse, inverse
