// attend and assemble. A task is two low-res rows of cells. A strip of cells makes its weights, which stay in the
// first-level cache while the channels stream past: two channels and four points at a time, so that each weight vector
// is used twice and each low-res row, once loaded, serves both rows of cells.
#pragma once
#include "window.h"

namespace sapa::SAPA_ISA {

constexpr int64_t ROWS = 2;

template <class T> struct Forward : Window<T> {
    using A = typename Wide<T>::type;
    using Window<T>::call, Window<T>::x, Window<T>::y, Window<T>::P, Window<T>::ry, Window<T>::rx, Window<T>::padded;

    Planes at{P * STRIP, STRIP};
    int64_t block = MOST_POINTS * P * STRIP;
    Scratch<A> w = Scratch<A>(ROWS * block);

    using Window<T>::Window;
    using Chunks = std::vector<std::vector<Chunk>>;  // [row of cells][part of its points]

    // rows [i, i + n) of cells, which have the same number of points
    void rows(int64_t b, int64_t i, int64_t n) {
        int64_t share = call.C / call.G;
        bool is_last = call.C > 1 && call.v.channel == 1 && call.y.channel == 1;
        Chunks chunks;
        for (int64_t r = 0; r < n; ++r) chunks.push_back(chunks_of_row(y, x, i + r));
        for (size_t m = 0; m < chunks[0].size(); ++m)
            for (int64_t j = 0; j < x.low; j += STRIP)
                for (int64_t group = 0; group < call.G; ++group) {
                    for (int64_t r = 0; r < n; ++r) weights(&w[r * block], group, b, i + r, j, chunks[r][m]);
                    with_points(chunks[0][m].n, [&](auto NS) {
                        if (!is_last) return planes<NS>(b, i, n, j, chunks, m, group * share, share);
                        for (int64_t r = 0; r < n; ++r)
                            cells<NS>(&w[r * block], b, i + r, j, chunks[r][m], group * share, share);
                    });
                }
    }

    void weights(A *to, int64_t group, int64_t b, int64_t i, int64_t j, const Chunk &chunk) {
        if (!call.q.data) return this->read(to, at, group, b, j, chunk);
        this->scores(to, at, b, i, j, chunk);
        for (int n = 0; n < chunk.n; ++n) weights_of(to + n * at.point, at.tap, P, this->lanes(j), call.normalize);
    }

    // ---- planar: rows of v, vectors along the cells

    int64_t most_rows = call.Kh + ROWS - 1;
    std::vector<const A *> low_rows = std::vector<const A *>(4 * most_rows);
    Scratch<A> scratch = Scratch<A>(4 * most_rows * padded), zeros = Scratch<A>(std::max(padded, call.C));
    Scratch<A> results = Scratch<A>(8 * STRIP);

    template <int NS>
    void planes(int64_t b, int64_t i, int64_t n, int64_t j, const Chunks &chunks, size_t m, int64_t c, int64_t C) {
        constexpr int NC = NS > 2 ? 2 : 4;
        int64_t until = c + C;
        for (; c + NC <= until; c += NC) channels<NS, NC>(b, i, n, j, chunks, m, c);
        for (; c < until; ++c) channels<NS, 1>(b, i, n, j, chunks, m, c);
    }

    template <int NS, int NC>
    void channels(int64_t b, int64_t i, int64_t n, int64_t j, const Chunks &chunks, size_t m, int64_t c) {
        int64_t n_low = call.Kh + n - 1, n_lanes = this->lanes(j);
        this->template low_rows_of<NC>(low_rows.data(), n_low, scratch.data(), zeros.data(), call.v, b, c, i, j);
        for (int64_t r = 0; r < n; ++r) {
            const Chunk &chunk = chunks[r][m];
            weigh_planar<NS, NC>(results.data(), STRIP, &w[r * block], at, &low_rows[r], n_low, call.Kh, call.Kw,
                                 n_lanes);
            for (int e = 0; e < NC; ++e) write<NS>(&results[e * STRIP], NC * STRIP, b, c + e, j, chunk);
        }
    }

    // the points of a chunk, `step` apart in the results
    template <int NS> void write(const A *from, int64_t step, int64_t b, int64_t c, int64_t j, const Chunk &chunk) {
        bool is_double = x.is_whole() && x.most == 2 && call.y.column == 1;
        for (int n = 0; n < NS; ++n) {
            const Point &p = chunk.point[n];
            if (is_double && n + 1 < NS && p.a == 0) {
                unpack_pairs(from + n * step, from + (n + 1) * step, address<T>(call.y, b, c, p.y, 2 * j),
                             std::min(this->lanes(j), x.low - j));
                ++n;
            } else {
                unpack_high<T>(from + n * step, call.y, b, c, p.y, p.a, j, this->lanes(j), x);
            }
        }
    }

    // ---- channels_last: one cell at a time, vectors along the channels

    std::vector<const A *> taps = std::vector<const A *>(P);
    Scratch<A> wide_rows, wide_results, dropped = Scratch<A>(call.C);

    template <int NS>
    void cells(const A *strip, int64_t b, int64_t i, int64_t j, const Chunk &chunk, int64_t c, int64_t C) {
        constexpr bool is_wide = std::is_same_v<T, A>;
        int64_t n_cells = std::min(STRIP, x.low - j);
        if (!is_wide) widen_cells(b, i, j, c, C);
        wide_results.resize(is_wide ? 0 : NS * C);
        for (int64_t l = 0; l < n_cells; ++l) {
            for (int64_t t = 0; t < P; ++t) {
                int64_t r = i + t / call.Kw - ry, s = j + l + t % call.Kw - rx;
                if (r < 0 || r >= y.low || s < 0 || s >= x.low)
                    taps[t] = zeros.data();
                else if (is_wide)
                    taps[t] = reinterpret_cast<const A *>(address<T>(call.v, b, c, r, s));
                else
                    taps[t] = &wide_rows[((t / call.Kw) * padded + l + t % call.Kw) * C];
            }
            A *out[NS];
            const A *weights[NS];
            bool is_there[NS];
            for (int n = 0; n < NS; ++n) {
                int64_t p = x.first[j + l] + chunk.point[n].a;
                is_there[n] = p < x.first[j + l + 1];
                weights[n] = strip + n * at.point + l;
                if (!is_wide)
                    out[n] = &wide_results[n * C];
                else
                    out[n] = is_there[n] ? reinterpret_cast<A *>(address<T>(call.y, b, c, chunk.point[n].y, p))
                                         : dropped.data();
            }
            weigh_cells<NS>(out, weights, C);
            if (!is_wide)
                for (int n = 0; n < NS; ++n)
                    if (is_there[n]) {
                        T *to = address<T>(call.y, b, c, chunk.point[n].y, x.first[j + l] + chunk.point[n].a);
                        for (int64_t e = 0; e < C; ++e) to[e] = narrow<T>(out[n][e]);
                    }
        }
    }

    template <int NS> void weigh_cells(A *const *out, const A *const *weights, int64_t C) {
        constexpr int N = Simd<A>::N, NV = NS > 2 ? 3 : NS == 2 ? 4 : 8;
        int64_t c = 0;
        for (; c + NV * N <= C; c += NV * N) weigh_cell<NS, NV>(out, weights, at.tap, taps.data(), P, c);
        for (; c + N <= C; c += N) weigh_cell<NS, 1>(out, weights, at.tap, taps.data(), P, c);
        for (; c < C; ++c)
            for (int n = 0; n < NS; ++n) {
                A total = 0;
                for (int64_t t = 0; t < P; ++t) total += weights[n][t * at.tap] * taps[t][c];
                out[n][c] = total;
            }
    }

    void widen_cells(int64_t b, int64_t i, int64_t j, int64_t c, int64_t C) {
        wide_rows.resize(call.Kh * padded * C);
        for (int64_t t = 0; t < call.Kh; ++t)
            for (int64_t l = 0; l < padded; ++l) {
                int64_t r = i + t - ry, s = j + l - rx;
                if (r >= 0 && r < y.low && s >= 0 && s < x.low)
                    widen_row<T>(&wide_rows[(t * padded + l) * C], address<T>(call.v, b, c, r, s), 1, C);
            }
    }
};

template <class T> void forward(const SapaCall &call) {
    Axis y(call.H, call.low_h), x(call.W, call.low_w);
    int64_t n = y.is_whole() ? ROWS : 1, blocks = (call.low_h + n - 1) / n;
#pragma omp parallel
    {
        Forward<T> kernel(call, y, x);
#pragma omp for schedule(static)
        for (int64_t task = 0; task < call.B * blocks; ++task) {
            int64_t i = task % blocks * n;
            kernel.rows(task / blocks, i, std::min(n, call.low_h - i));
        }
    }
}

}  // namespace sapa::SAPA_ISA
