// Norm and project: y[d] = sum over c of weight[d, c] * norm(x)[c] + bias[d] at every point, where norm is LayerNorm
// over the channels, or nothing. The normalised map is never written: gamma goes into the weights, beta into the bias,
// and the deviation is divided out of the D sums instead of the C channels.
//
// A strip of 48 points is copied, as rows of a channel each, and centred; then it is a matrix product in registers,
// four rows of the result and three vectors of points at a time. Forward and backward share the strip and the product.
// A task is four strips, which are copied together: the planes of channels are pages apart, often by a power of two,
// and to go to the next costs more than to read on.
#pragma once
#include "linear.h"
#include "pack.h"
#include "parallel.h"

namespace sapa::SAPA_ISA {

constexpr int64_t ROWS_AT_ONCE = 4, VECTORS_AT_ONCE = 3, DEEP = 32;

// y[r][p] += sum over k < depth of a[k][r] * b[k][p] for 4 rows; a is [k][rows], y and b have `length` points a row
template <class A> inline void product(A *y, const A *a, int64_t rows, const A *b, int64_t length, int64_t depth) {
    constexpr int64_t N = Simd<A>::N;
    for (int64_t l = 0; l < length; l += VECTORS_AT_ONCE * N) {
        Vec<A> sums[ROWS_AT_ONCE][VECTORS_AT_ONCE];
        clear(sums);  // and not what is there: short sums, added up, round less than a long one
        for (int64_t k = 0; k < depth; ++k) {
            Vec<A> points[VECTORS_AT_ONCE];
            for (int v = 0; v < VECTORS_AT_ONCE; ++v) points[v] = keep(load(b + k * length + l + v * N));
            for (int r = 0; r < ROWS_AT_ONCE; ++r)
                for (int v = 0; v < VECTORS_AT_ONCE; ++v) sums[r][v] += splat(a[k * rows + r]) * points[v];
        }
        for (int r = 0; r < ROWS_AT_ONCE; ++r)
            for (int v = 0; v < VECTORS_AT_ONCE; ++v) {
                A *to = y + r * length + l + v * N;
                store(to, load(to) + sums[r][v]);
            }
    }
}

// y = a b with a [depth][rows], b [depth][length], y [rows][length]; rows are a multiple of four
template <class A>
__attribute__((noinline)) void multiply(A *y, const A *a, int64_t rows, const A *b, int64_t length, int64_t depth) {
    std::fill_n(y, rows * length, A(0));
    for (int64_t k = 0; k < depth; k += DEEP)
        for (int64_t r = 0; r < rows; r += ROWS_AT_ONCE)
            product(y + r * length, a + k * rows + r, rows, b + k * length, length, std::min(DEEP, depth - k));
}

// the sum of f(i, v) over n rows, for some vectors at once, as they lie side by side
template <class A, class F> inline void sum_rows(Vec<A> (&total)[VECTORS_AT_ONCE], int64_t n, F f) {
    for (int v = 0; v < VECTORS_AT_ONCE; ++v) total[v] = Vec<A>{};
    for (int64_t from = 0; from < n; from += DEEP) {
        Vec<A> part[VECTORS_AT_ONCE];
        for (int v = 0; v < VECTORS_AT_ONCE; ++v) part[v] = Vec<A>{};
        for (int64_t i = from; i < std::min(from + DEEP, n); ++i)
            for (int v = 0; v < VECTORS_AT_ONCE; ++v) part[v] += f(i, v);
        for (int v = 0; v < VECTORS_AT_ONCE; ++v) total[v] += part[v];
    }
}

inline int64_t products(const SapaProjection &call) { return call.B * call.H * call.W * call.C * call.D; }
inline int64_t in_fours(int64_t n) { return (n + 3) / 4 * 4; }

// The points of a map in rows as long as possible: the whole image where rows follow each other in memory.
struct Lines {
    int64_t B, lines, length;

    Lines(const SapaProjection &call) : B(call.B), lines(call.H), length(call.W) {
        auto is_dense = [&](const SapaMap &m) { return !m.data || m.row == call.W * m.column; };
        if (is_dense(call.x) && is_dense(call.y) && is_dense(call.dx)) length *= lines, lines = 1;
    }
    int64_t blocks(int64_t width) const { return B * lines * ((length + width - 1) / width); }
};

template <class T> struct Projection {
    using A = typename Wide<T>::type;
    static constexpr int64_t N = Simd<A>::N, STRIP = 48, BLOCK = 4 * STRIP;
    static_assert(STRIP % (VECTORS_AT_ONCE * N) == 0);

    const SapaProjection &call;
    Lines lines;
    int64_t C = call.C, D = call.D, padded = in_fours(D);
    const A *weight = static_cast<const A *>(call.weight), *bias = static_cast<const A *>(call.bias),
            *gamma = static_cast<const A *>(call.gamma), *beta = static_cast<const A *>(call.beta);
    Scratch<A> folded = zeros_of<A>(C * padded), offset = Scratch<A>(padded);  // [C][D], [D]
    Scratch<A> copy = Scratch<A>(C * BLOCK), y = Scratch<A>(padded * STRIP), scale = Scratch<A>(STRIP);
    int64_t b = 0, line = 0, from = 0, n = 0;  // the strip
    A *x = nullptr;                            // and its copy: [C][STRIP]

    Projection(const SapaProjection &call) : call(call), lines(call) {
        for (int64_t d = 0; d < D; ++d) {
            A total = bias ? bias[d] : A(0);
            for (int64_t c = 0; c < C; ++c) {
                folded[c * padded + d] = weight[d * C + c] * (gamma ? gamma[c] : A(1));
                if (beta) total += weight[d * C + c] * beta[c];
            }
            offset[d] = total;
        }
    }

    T *at(const SapaMap &m, int64_t c) const { return address<T>(m, b, c, line, from); }

    // calls f for each strip of a block, with x centred
    template <class F> void each_strip(int64_t block, F f) {
        int64_t a_line = (lines.length + BLOCK - 1) / BLOCK, begin = block % a_line * BLOCK;
        int64_t until = std::min(begin + BLOCK, lines.length);
        line = block / a_line % lines.lines, b = block / a_line / lines.lines;
        // a channel's rows of all strips, where they follow each other
        int64_t at_once = call.x.column == 1 ? 1 : C;
        for (int64_t c = 0; c < C; c += at_once) {
            if (at_once == 1 && c + AHEAD < C)
                expect(address<T>(call.x, b, c + AHEAD, line, begin), until - begin);
            for (from = begin, x = copy.data(); from < until; from += STRIP, x += C * STRIP) {
                n = std::min(STRIP, until - from);
                read(x, call.x, c, at_once);
            }
        }
        for (from = begin, x = copy.data(); from < until; from += STRIP, x += C * STRIP) {
            n = std::min(STRIP, until - from);
            centre();
            f();
        }
    }

    // channels [c, c + channels) of the strip, zero beyond the image
    void read(A *to, const SapaMap &m, int64_t c, int64_t channels) const {
        widen_rows<T>(to + c * STRIP, STRIP, at(m, c), m.channel, m.column, channels, n);
        for (int64_t e = c; e < c + channels && n < STRIP; ++e)
            std::fill(to + e * STRIP + n, to + (e + 1) * STRIP, A(0));
    }

    // x without its mean, and one over its deviation
    void centre() {
        if (!call.is_normed) return std::fill(scale.begin(), scale.end(), A(1));
        for (int64_t l = 0; l < STRIP; l += VECTORS_AT_ONCE * N) {
            Vec<A> origin[VECTORS_AT_ONCE], mean[VECTORS_AT_ONCE], squares[VECTORS_AT_ONCE];
            auto at_row = [&](int64_t c, int v) { return x + c * STRIP + l + v * N; };
            // from the first channel on, so that what all channels have in common costs no digits
            for (int v = 0; v < VECTORS_AT_ONCE; ++v) origin[v] = load(at_row(0, v));
            sum_rows<A>(mean, C, [&](int64_t c, int v) { return load(at_row(c, v)) - origin[v]; });
            for (int v = 0; v < VECTORS_AT_ONCE; ++v) mean[v] /= A(C);
            sum_rows<A>(squares, C, [&](int64_t c, int v) {
                Vec<A> centred = load(at_row(c, v)) - origin[v] - mean[v];
                store(at_row(c, v), centred);
                return centred * centred;
            });
            for (int v = 0; v < VECTORS_AT_ONCE; ++v)
                for (int64_t i = 0; i < N; ++i)
                    scale[l + v * N + i] = 1 / std::sqrt(squares[v][i] / A(C) + A(call.eps));
        }
        std::fill(scale.begin() + n, scale.end(), A(0));  // points that are none have no deviation
    }

    void forward(int64_t block) {
        each_strip(block, [&] {
            multiply(y.data(), folded.data(), padded, x, STRIP, C);
            for (int64_t d = 0; d < D; ++d)
                for (int64_t l = 0; l < STRIP; l += N)
                    store(&y[d * STRIP + l], load(&y[d * STRIP + l]) * load(&scale[l]) + offset[d]);
            narrow_rows(at(call.y, 0), call.y.channel, call.y.column, y.data(), STRIP, D, n);
        });
    }
};

template <class T> void project(const SapaProjection &call) {
    in_parallel(
        Lines(call).blocks(Projection<T>::BLOCK), products(call), [&] { return Projection<T>(call); },
        [](Projection<T> &kernel, int64_t block) { kernel.forward(block); });
}

}  // namespace sapa::SAPA_ISA
