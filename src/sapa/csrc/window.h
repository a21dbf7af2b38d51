// What forward and backward share: the weights of the points of a chunk, for a strip of cells, and weighted sums.
//
// A strip of 32 cells keeps its scores, and the queries and keys of 32 channels, in the first-level cache.
#pragma once
#include "linear.h"
#include "normalize.h"
#include "pack.h"

namespace sapa::SAPA_ISA {

constexpr int64_t DEPTH = 32;

inline int64_t products(const SapaCall &call) {
    return call.B * call.H * call.W * call.Kh * call.Kw * (call.C + call.D);
}

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

// and with the width of the window, if it is a usual one
template <class F> inline void with_width(int64_t Kw, F f) {
    switch (Kw) {
        case 3:
            return f(std::integral_constant<int, 3>{});
        case 5:
            return f(std::integral_constant<int, 5>{});
        case 7:
            return f(std::integral_constant<int, 7>{});
        default:
            return f(std::integral_constant<int, 0>{});
    }
}

template <class T> struct Window {
    using A = typename Wide<T>::type;

    const SapaCall &call;
    const Axis &y, &x;
    int64_t rows, P, ry, rx, padded;
    Scratch<A> high, low;  // [points][DEPTH][STRIP] [Kh + rows - 1][DEPTH][padded]
    Scratch<A> bias;       // [points][Kw][STRIP]
    Scratch<A> results = Scratch<A>(MOST_POINTS * DEPTH * STRIP);

    // for `rows` rows of cells at once
    Window(const SapaCall &call, const Axis &y, const Axis &x, int64_t rows)
        : call(call),
          y(y),
          x(x),
          rows(rows),
          P(call.Kh * call.Kw),
          ry(call.Kh / 2),
          rx(call.Kw / 2),
          padded((STRIP + call.Kw + 14) / 16 * 16),
          high(MOST_POINTS * DEPTH * STRIP),
          low((call.Kh + rows - 1) * DEPTH * padded),
          bias(zeros_of<A>(call.rows ? MOST_POINTS * call.Kw * STRIP : 0)) {}

    int64_t lanes(int64_t j) const {
        constexpr int64_t N = Simd<A>::N;
        return std::min(STRIP, (x.low - j + N - 1) / N * N);
    }

    // the rows that the windows of n rows of cells from i on reach
    void pack_low_rows(A *to, int64_t row, const SapaMap &m, int64_t c, int64_t C, int64_t b, int64_t i, int64_t n,
                       int64_t j, bool is_framed = false) const {
        for (int64_t t = 0; t < call.Kh + n - 1; ++t)
            pack_low<T>(to + t * row, padded, m, b, c, C, i + t - ry, j - rx, lanes(j) + call.Kw - 1, y.low, x.low,
                        is_framed);
    }

    // s[r][n][t] = <a[point n], b[window]> over channels [c, c + C), for the points of each row of cells from i on
    void dot(A *s, int64_t block, Planes at, const SapaMap &a, const SapaMap &b, int64_t c, int64_t C, int64_t batch,
             int64_t i, int64_t j, const Chunk *const *chunks, int64_t n_rows) {
        int64_t n_lanes = lanes(j);
        for (int64_t d = 0; d < C; d += DEPTH) {
            int64_t depth = std::min(DEPTH, C - d);
            pack_low_rows(low.data(), DEPTH * padded, b, c + d, depth, batch, i, n_rows, j);
            for (int64_t r = 0; r < n_rows; ++r) {
                const Chunk &chunk = *chunks[r];
                pack_chunk<T>(high.data(), depth * STRIP, STRIP, a, batch, c + d, depth, chunk, j, n_lanes, x);
                with_points(chunk.n, [&](auto NS) {
                    for (int64_t t = 0; t < call.Kh; ++t)
                        dot_planar<NS>(s + r * block + t * call.Kw * at.tap, at, high.data(), STRIP,
                                       &low[(r + t) * DEPTH * padded], padded, depth, call.Kw, n_lanes, d == 0);
                });
            }
        }
    }

    void scores(A *s, int64_t block, Planes at, int64_t b, int64_t i, int64_t j, const Chunk *const *chunks,
                int64_t n_rows) {
        dot(s, block, at, call.q, call.k, 0, call.D, b, i, j, chunks, n_rows);
        if (call.rows) pack_columns(j, *chunks[0]);
        for (int64_t r = 0; r < n_rows; ++r) {
            if (call.rows) add_bias(s + r * block, at, j, *chunks[r]);
            if (call.border == SAPA_MASK) mask(s + r * block, at, i + r, j, *chunks[r]);
        }
    }

    // the given weights of one group, as planes
    void read(A *w, Planes at, int64_t group, int64_t b, int64_t j, const Chunk &chunk) {
        pack_chunk<T>(w, at.point, at.tap, call.w, b, group * P, P, chunk, j, lanes(j), x);
    }

    // the points of a chunk in C channels of a map = the weighted sums of the windows of a strip of cells, in rows of
    // which a channel is `padded` from the next; channels in pairs or fours, and the rest one by one
    template <int NS, class At>
    void weigh(const SapaMap &m, int64_t b, int64_t c, int64_t C, const Chunk &chunk, int64_t j, const A *w, At at,
               const A *rows, int64_t row) {
        constexpr int NC = NS > 2 ? 2 : 4;
        int64_t most = C / NC * NC;
        with_width(call.Kw, [&](auto KW) {
            weigh_channels<NS, NC, KW>(m, b, c, most, chunk, j, w, at, rows, row);
            weigh_channels<NS, 1, KW>(m, b, c + most, C - most, chunk, j, w, at, rows + most * padded, row);
        });
    }

  private:
    template <int NS, int NC, int KW, class At>
    void weigh_channels(const SapaMap &m, int64_t b, int64_t c, int64_t C, const Chunk &chunk, int64_t j, const A *w,
                        At at, const A *rows, int64_t row) {
        constexpr int64_t N = Simd<A>::N;
        auto each = [&](auto put) {
            weigh_planar<NS, NC, KW>(w, at, rows, padded, row, C, call.Kh, call.Kw, lanes(j), put);
        };
        A *planes = results.data();
        auto keep_planes = [=](int64_t d, int64_t l, const Vec<A>(&sums)[NS][NC]) {
            for (int n = 0; n < NS; ++n)
                for (int e = 0; e < NC; ++e) store(planes + (n * C + d + e) * STRIP + l, sums[n][e]);
        };
        int64_t inside = std::min(STRIP, x.low - j), done = 0;
        if (NS > 1 && x.is_whole && x.most == 2 && m.column == 1) {
            // two neighbours a cell: whole vectors go straight to the map
            done = inside / N * N;
            T *to = address<T>(m, b, c, chunk.point[0].y, 2 * j);
            int64_t channel = m.channel, next_row = NS > 2 ? (chunk.point[2].y - chunk.point[0].y) * m.row : 0;
            each([=](int64_t d, int64_t l, const Vec<A>(&sums)[NS][NC]) {
                if (l >= done) return keep_planes(d, l, sums);
                for (int e = 0; e < NC; ++e)
                    for (int n = 0; n + 1 < NS; n += 2) {
                        T *pair = to + (d + e) * channel + n / 2 * next_row + 2 * l;
                        __builtin_prefetch(pair + NC * channel, 1);
                        Vec<A> low, high;
                        interleave<A>(sums[n][e], sums[n + 1][e], low, high, Lanes<A>{});
                        store_narrow(pair, low);
                        store_narrow(pair + N, high);
                    }
            });
        } else {
            each(keep_planes);
        }
        for (int n = 0; n < NS && done < inside; ++n)
            for (int64_t d = 0; d < C; ++d)
                unpack_high<T>(planes + (n * C + d) * STRIP + done, m, b, c + d, chunk.point[n].y, chunk.point[n].a,
                               j + done, inside - done, x);
    }

    // the columns of the table for the points of a chunk, tap by tap; `a` of a point is the same in every row of cells
    void pack_columns(int64_t j, const Chunk &chunk) {
        const A *columns = static_cast<const A *>(call.columns);
        for (int n = 0; n < chunk.n; ++n)
            for (int64_t l = 0; l < std::min(lanes(j), x.low - j); ++l) {
                int64_t p = std::min(x.first[j + l] + chunk.point[n].a, call.W - 1);
                for (int64_t t = 0; t < call.Kw; ++t) bias[(n * call.Kw + t) * STRIP + l] = columns[p * call.Kw + t];
            }
    }

    void add_bias(A *s, Planes at, int64_t j, const Chunk &chunk) {
        for (int n = 0; n < chunk.n; ++n) {
            const A *row = static_cast<const A *>(call.rows) + chunk.point[n].y * call.Kh;
            for (int64_t t = 0; t < P; ++t) {
                A *to = s + n * at.point + t * at.tap;
                const A *column = &bias[(n * call.Kw + t % call.Kw) * STRIP];
                for (int64_t l = 0; l < lanes(j); l += Simd<A>::N)
                    store(to + l, load(to + l) + (splat(row[t / call.Kw]) + load(column + l)));
            }
        }
    }

    void mask(A *s, Planes at, int64_t i, int64_t j, const Chunk &chunk) {
        const A left_out = -std::numeric_limits<A>::infinity();
        int64_t cells = std::min(lanes(j), x.low - j);
        for (int64_t t = 0; t < P; ++t) {
            int64_t r = i + t / call.Kw - ry, shift = j + t % call.Kw - rx;
            bool is_row_inside = r >= 0 && r < y.low;
            if (is_row_inside && shift >= 0 && shift + cells <= x.low) continue;
            for (int n = 0; n < chunk.n; ++n)
                for (int64_t l = 0; l < cells; ++l)
                    if (!is_row_inside || l + shift < 0 || l + shift >= x.low)
                        s[n * at.point + t * at.tap + l] = left_out;
        }
    }
};

}  // namespace sapa::SAPA_ISA
