"""The forward kernel of `attend`. A program makes BC channels of the U points of N cells."""

import triton
import triton.language as tl

from sapa.backends.triton.maps import load_low, spread, store_high
from sapa.backends.triton.scores import add_tap, nothing_yet, one_over, score
from sapa.backends.triton.tiles import block_of_points, channels, is_inside, split


@triton.jit
def attend_kernel(
    out, q, k, v, out_strides, q_strides, k_strides, v_strides, rows, columns, C, D, sizes,
    SY: tl.constexpr, SX: tl.constexpr, U: tl.constexpr, V: tl.constexpr, N: tl.constexpr,
    BC: tl.constexpr, BD: tl.constexpr, ONE_D: tl.constexpr,
    NORMALIZE: tl.constexpr, BORDER: tl.constexpr, INDEX: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """y[p] = sum_t f[p, t] v[c(p) + t] times one over the sum of f, in one pass over the taps."""
    number, block = split(tl.program_id(0), tl.cdiv(C, BC))
    b, i, j, y, x, is_point = block_of_points(number, sizes, SY, SX, U, V, N, INDEX)
    c, is_channel = channels(block, C, BC, INDEX)
    q, k, v, out = q + b * q_strides[0], k + b * k_strides[0], v + b * v_strides[0], out + b * out_strides[0]
    peak, mass = nothing_yet(x, ACC)
    total = tl.zeros([U, BC, N, V], ACC)
    for ty in range(sizes[4]):
        for tx in range(sizes[5]):
            r, s = i + ty - sizes[4] // 2, j + tx - sizes[5] // 2
            raw = score(
                q, q_strides, y, x, is_point, k, k_strides, r, s, rows, columns, ty, tx, D, sizes,
                BD, ONE_D, BORDER, INDEX, ACC,
            )  # fmt: skip
            value = load_low(v, v_strides, c, is_channel, r, s, is_inside(r, s, sizes), ACC)
            f, peak, mass, shrink = add_tap(raw, peak, mass, NORMALIZE)
            if NORMALIZE == "softmax":
                total *= shrink[:, None, :, :]
            total += spread(f, value)
    total *= one_over(mass, NORMALIZE)[:, None, :, :]
    store_high(out, out_strides, c, is_channel, y, x, is_point, total)
