"""The forward kernels. A program makes BC channels of the U points of N cells."""

import triton
import triton.language as tl

from sapa.backends.triton.scores import activation, score, sums
from sapa.backends.triton.tiles import block_of_points, channels, high, is_inside, low, split


@triton.jit
def attend_kernel(
    out, q, k, v, out_strides, q_strides, k_strides, v_strides, rows, columns, C, D, sizes,
    U: tl.constexpr, N: tl.constexpr, BC: tl.constexpr, BD: tl.constexpr, ONE_D: tl.constexpr,
    NORMALIZE: tl.constexpr, BORDER: tl.constexpr, INDEX: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """y[p] = sum_t w[p, t] v[c(p) + t]: once over the taps for the sum of the weights, once for the values."""
    number, block = split(tl.program_id(0), tl.cdiv(C, BC))
    b, i, j, y, x, is_point = block_of_points(number, sizes, U, N, INDEX)
    c, is_channel = channels(block, C, BC, INDEX)
    q, k, v, out = q + b * q_strides[0], k + b * k_strides[0], v + b * v_strides[0], out + b * out_strides[0]
    peak, inverse = sums(
        q, q_strides, y, x, is_point, k, k_strides, i, j, rows, columns, D, sizes,
        U, N, BD, ONE_D, NORMALIZE, BORDER, INDEX, ACC,
    )  # fmt: skip
    total = tl.zeros([U, BC, N], ACC)
    for ty in range(sizes[4]):
        for tx in range(sizes[5]):
            r, s = i + ty - sizes[4] // 2, j + tx - sizes[5] // 2
            raw = score(
                q, q_strides, y, x, is_point, k, k_strides, r, s, rows, columns, ty, tx, D, sizes,
                BD, ONE_D, BORDER, INDEX, ACC,
            )  # fmt: skip
            w = activation(raw, peak, NORMALIZE) * inverse
            there = is_channel[:, None] & is_inside(r, s, sizes)[None, :]
            value = tl.load(v + low(v_strides, c, r, s), mask=there, other=0).to(ACC)
            total += w[:, None, :] * value[None, :, :]
    there = is_channel[None, :, None] & is_point[:, None, :]
    tl.store(out + high(out_strides, c, y, x), total.to(out.dtype.element_ty), mask=there)


@triton.jit
def assemble_kernel(
    out, v, w, out_strides, v_strides, w_strides, C, G, sizes,
    U: tl.constexpr, N: tl.constexpr, BC: tl.constexpr, INDEX: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """y[p] = sum_t w[p, t] v[c(p) + t] for C channels in each of G groups, with the weights given."""
    number, block = split(tl.program_id(0), tl.cdiv(C, BC))
    number, g = split(number, G)
    b, i, j, y, x, is_point = block_of_points(number, sizes, U, N, INDEX)
    c, is_channel = channels(block, C, BC, INDEX)
    c += g * C
    v, w, out = v + b * v_strides[0], w + b * w_strides[0], out + b * out_strides[0]
    total = tl.zeros([U, BC, N], ACC)
    for ty in range(sizes[4]):
        for tx in range(sizes[5]):
            r, s = i + ty - sizes[4] // 2, j + tx - sizes[5] // 2
            p = ((g * sizes[4] + ty) * sizes[5] + tx).to(INDEX)
            weight = tl.load(w + p * w_strides[1] + y * w_strides[2] + x * w_strides[3], mask=is_point, other=0).to(ACC)
            there = is_channel[:, None] & is_inside(r, s, sizes)[None, :]
            value = tl.load(v + low(v_strides, c, r, s), mask=there, other=0).to(ACC)
            total += weight[:, None, :] * value[None, :, :]
    there = is_channel[None, :, None] & is_point[:, None, :]
    tl.store(out + high(out_strides, c, y, x), total.to(out.dtype.element_ty), mask=there)
