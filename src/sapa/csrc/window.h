// What forward and backward share: the weights of the points of a chunk, for a strip of cells.
//
// A strip of 32 cells keeps its scores, and the queries and keys of 32 channels, in the first-level cache.
#pragma once
#include "linear.h"
#include "normalize.h"
#include "pack.h"

namespace sapa::SAPA_ISA {

constexpr int64_t STRIP = 32;
constexpr int64_t DEPTH = 32;

// calls f with the number of points as a constant
template <class F> inline void with_points(int n, F f) {
    switch (n) {
        case 1:
            return f(std::integral_constant<int, 1>{});
        case 2:
            return f(std::integral_constant<int, 2>{});
        default:
            return f(std::integral_constant<int, 4>{});
    }
}

template <class T> struct Window {
    using A = typename Wide<T>::type;

    const SapaCall &call;
    const Axis &y, &x;
    int64_t P, ry, rx, padded;
    Scratch<A> high, low;  // [points][DEPTH][STRIP] [Kh][DEPTH][padded]

    Window(const SapaCall &call, const Axis &y, const Axis &x)
        : call(call),
          y(y),
          x(x),
          P(call.Kh * call.Kw),
          ry(call.Kh / 2),
          rx(call.Kw / 2),
          padded(STRIP + call.Kw - 1),
          high(MOST_POINTS * DEPTH * STRIP),
          low(call.Kh * DEPTH * padded) {}

    int64_t lanes(int64_t j) const {
        constexpr int64_t N = Simd<A>::N;
        return std::min(STRIP, (x.low - j + N - 1) / N * N);
    }

    void pack_low_rows(const SapaMap &m, int64_t b, int64_t c, int64_t depth, int64_t i, int64_t j) {
        for (int64_t t = 0; t < call.Kh; ++t)
            for (int64_t d = 0; d < depth; ++d)
                pack_low<T>(&low[(t * DEPTH + d) * padded], m, b, c + d, i + t - ry, j - rx, padded, y.low, x.low);
    }

    // s[n][t] = <a[point n], b[window]> over channels [c, c + C)
    void dot(A *s, Planes at, const SapaMap &a, const SapaMap &b, int64_t C, int64_t c, int64_t batch, int64_t i,
             int64_t j, const Chunk &chunk) {
        int64_t n_lanes = lanes(j);
        for (int n = 0; n < chunk.n; ++n)
            for (int64_t t = 0; t < P; ++t) std::fill_n(s + n * at.point + t * at.tap, n_lanes, A(0));
        for (int64_t d = 0; d < C; d += DEPTH) {
            int64_t depth = std::min(DEPTH, C - d);
            for (int n = 0; n < chunk.n; ++n)
                for (int64_t e = 0; e < depth; ++e)
                    pack_high<T>(&high[(n * depth + e) * STRIP], a, batch, c + d + e, chunk.point[n].y,
                                 chunk.point[n].a, j, n_lanes, x);
            pack_low_rows(b, batch, c + d, depth, i, j);
            with_points(chunk.n, [&](auto NS) {
                for (int64_t t = 0; t < call.Kh; ++t)
                    dot_planar<NS>(s + t * call.Kw * at.tap, at, high.data(), STRIP, &low[t * DEPTH * padded], padded,
                                   depth, call.Kw, n_lanes);
            });
        }
    }

    void scores(A *s, Planes at, int64_t b, int64_t i, int64_t j, const Chunk &chunk) {
        dot(s, at, call.q, call.k, call.D, 0, b, i, j, chunk);
        if (call.rows) add_bias(s, at, j, chunk);
        if (call.border == SAPA_MASK) mask(s, at, i, j, chunk);
    }

    // the given weights of one group, as planes
    void read(A *w, Planes at, int64_t group, int64_t b, int64_t j, const Chunk &chunk) {
        for (int n = 0; n < chunk.n; ++n)
            for (int64_t t = 0; t < P; ++t)
                pack_high<T>(w + n * at.point + t * at.tap, call.w, b, group * P + t, chunk.point[n].y,
                             chunk.point[n].a, j, lanes(j), x);
    }

    // NC channels of the low-res rows that the windows of cells [j, j + lanes) reach from row i on: in place if
    // possible
    template <int NC>
    void low_rows_of(const A **rows, int64_t n, A *scratch, const A *zeros, const SapaMap &m, int64_t b, int64_t c,
                     int64_t i, int64_t j) const {
        bool is_inside = j >= rx && j - rx + lanes(j) + call.Kw - 1 <= x.low;
        for (int64_t e = 0; e < NC; ++e)
            for (int64_t t = 0; t < n; ++t) {
                int64_t r = i + t - ry;
                const A *&row = rows[e * n + t];
                if (r < 0 || r >= y.low) {
                    row = zeros;
                } else if (std::is_same_v<T, A> && is_inside && m.column == 1) {
                    row = reinterpret_cast<const A *>(address<T>(m, b, c + e, r, j - rx));
                } else {
                    A *to = scratch + (e * n + t) * padded;
                    pack_low<T>(to, m, b, c + e, r, j - rx, padded, y.low, x.low);
                    row = to;
                }
            }
    }

  private:
    void add_bias(A *s, Planes at, int64_t j, const Chunk &chunk) {
        const A *rows = static_cast<const A *>(call.rows), *columns = static_cast<const A *>(call.columns);
        for (int n = 0; n < chunk.n; ++n)
            for (int64_t l = 0; l < std::min(lanes(j), x.low - j); ++l) {
                int64_t p = std::min(x.first[j + l] + chunk.point[n].a, call.W - 1);
                for (int64_t t = 0; t < P; ++t)
                    s[n * at.point + t * at.tap + l] +=
                        rows[chunk.point[n].y * call.Kh + t / call.Kw] + columns[p * call.Kw + t % call.Kw];
            }
    }

    void mask(A *s, Planes at, int64_t i, int64_t j, const Chunk &chunk) {
        const A left_out = -std::numeric_limits<A>::infinity();
        for (int64_t t = 0; t < P; ++t) {
            int64_t r = i + t / call.Kw - ry, shift = j + t % call.Kw - rx;
            for (int n = 0; n < chunk.n; ++n)
                for (int64_t l = 0; l < lanes(j); ++l)
                    if (r < 0 || r >= y.low || l + shift < 0 || l + shift >= x.low)
                        s[n * at.point + t * at.tap + l] = left_out;
        }
    }
};

}  // namespace sapa::SAPA_ISA
