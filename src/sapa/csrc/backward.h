// attend_backward and assemble_backward. A task owns the low-res rows [from, until) of dk and dv and gathers all that
// falls on them: it goes over its own rows of cells and over the Kh/2 rows above and below, whose weights it computes
// again. Nothing is shared between tasks, and each number is summed in the same order however the rows are divided, so
// results do not depend on the number of threads. Sums are kept in rings of Kh rows and written once.
#pragma once
#include "parallel.h"
#include "window.h"

namespace sapa::SAPA_ISA {

template <class T> struct Backward : Window<T> {
    using A = typename Wide<T>::type;
    using Window<T>::call, Window<T>::x, Window<T>::y, Window<T>::P, Window<T>::ry, Window<T>::rx, Window<T>::padded;

    int64_t b = 0, from = 0, until = 0;
    bool is_attend = call.q.data != nullptr,
         is_last = call.C > 1 && call.v.channel == 1 && call.y.channel == 1 && call.dv.channel == 1;

    // planes of a whole row of cells, with room for the window on both sides
    int64_t margin = (rx + 15) / 16 * 16, length = (x.low + STRIP - 1) / STRIP * STRIP + 2 * margin;
    Planes at{P * length, length};
    Scratch<A> s = zeros_of<A>(MOST_POINTS * P * length), w = s, ds = s;
    Scratch<A> ring_k = zeros_of<A>(call.Kh * call.D * length);
    Scratch<A> ring_v = zeros_of<A>(call.Kh * call.C * (is_last ? x.low : length));
    Scratch<A> high_rows = zeros_of<A>(MOST_POINTS * 2 * length);

    using Window<T>::Window;

    void run(int64_t batch, int64_t from_row, int64_t until_row, double *drows, double *dcolumns) {
        b = batch, from = from_row, until = until_row;
        int64_t first = std::max<int64_t>(0, from - ry), last = std::min(y.low, until + ry);
        for (int64_t i = first; i < last; ++i) {
            for (const Chunk &chunk : chunks_of_row(y, x, i))
                for (int64_t group = 0; group < call.G; ++group) cell_row(i, chunk, group, drows, dcolumns);
            flush(i - ry);
        }
        for (int64_t r = std::max(from, last - ry); r < until; ++r) flush(r);
    }

  private:
    bool owns(int64_t r) const { return r >= from && r < until; }

    void cell_row(int64_t i, const Chunk &chunk, int64_t group, double *drows, double *dcolumns) {
        int64_t C = call.C / call.G, c = group * C;
        const Chunk *chunks[] = {&chunk};
        for (int64_t j = 0; j < x.low; j += STRIP) {
            int64_t lane = margin + j, n_lanes = this->lanes(j);
            if (is_attend) {
                this->scores(&s[lane], 0, at, b, i, j, chunks, 1);
                for (int n = 0; n < chunk.n; ++n) {
                    for (int64_t t = 0; t < P; ++t)
                        std::copy_n(&s[n * at.point + t * at.tap + lane], n_lanes,
                                    &w[n * at.point + t * at.tap + lane]);
                    weights_of(&w[n * at.point + lane], at.tap, P, n_lanes, call.normalize);
                }
            } else {
                this->read(&w[lane], at, group, b, j, chunk);
            }
            if (is_last)
                dot_cells(i, j, chunk, c, C);
            else
                this->dot(&ds[lane], 0, at, call.y, call.v, c, C, b, i, j, chunks, 1);
            for (int n = 0; n < chunk.n && is_attend; ++n) {
                int64_t o = n * at.point + lane;
                weights_backward(&ds[o], &s[o], &w[o], at.tap, P, n_lanes, call.normalize);
            }
        }
        clear_beyond(chunk);
        if (owns(i)) {
            if (is_attend)
                gradients_of_queries(i, chunk, drows, dcolumns);
            else
                for (int n = 0; n < chunk.n; ++n)
                    for (int64_t t = 0; t < P; ++t)
                        unpack_high<T>(&ds[n * at.point + t * at.tap + margin], call.dw, b, group * P + t,
                                       chunk.point[n].y, chunk.point[n].a, 0, x.low, x);
        }
        with_points(chunk.n, [&](auto NS) {
            if (is_attend) scatter_planes<NS>(ring_k, call.D, ds.data(), call.q, 0, call.D, i, chunk);
            if (is_last)
                scatter_cells<NS>(i, chunk, c, C);
            else
                scatter_planes<NS>(ring_v, call.C, w.data(), call.y, c, C, i, chunk);
        });
    }

    // lanes that are no points must not reach their neighbours
    void clear_beyond(const Chunk &chunk) {
        for (int n = 0; n < chunk.n; ++n)
            for (int64_t t = 0; t < P; ++t)
                for (Scratch<A> *planes : {&w, &ds}) {
                    A *plane = &(*planes)[n * at.point + t * at.tap + margin];
                    std::fill(plane + x.low, plane + length - margin, A(0));
                    for (int64_t j = 0; j < x.low && !x.is_whole; ++j)
                        if (x.first[j] + chunk.point[n].a >= x.first[j + 1]) plane[j] = 0;
                }
    }

    void gradients_of_queries(int64_t i, const Chunk &chunk, double *drows, double *dcolumns) {
        A results[MOST_POINTS * STRIP];
        for (int64_t j = 0; j < x.low; j += STRIP)
            for (int64_t d = 0; d < call.D; d += DEPTH) {
                int64_t depth = std::min(DEPTH, call.D - d), row = DEPTH * padded;
                this->pack_low_rows(this->low.data(), row, call.k, d, depth, b, i, 1, j);
                for (int64_t e = 0; e < depth; ++e) {
                    with_points(chunk.n, [&](auto NS) {
                        weigh_planar<NS, 1, 0>(&ds[margin + j], at, &this->low[e * padded], 0, row, call.Kh, call.Kw,
                                               this->lanes(j), [&](int64_t l, const Vec<A>(&sums)[NS][1]) {
                                                   for (int n = 0; n < NS; ++n)
                                                       store(&results[n * STRIP + l], sums[n][0]);
                                               });
                    });
                    for (int n = 0; n < chunk.n; ++n)
                        unpack_high<T>(results + n * STRIP, call.dq, b, d + e, chunk.point[n].y, chunk.point[n].a, j,
                                       this->lanes(j), x);
                }
            }
        if (!call.rows) return;
        for (int n = 0; n < chunk.n; ++n)
            for (int64_t t = 0; t < P; ++t)
                for (int64_t j = 0; j < x.low; ++j) {
                    int64_t p = x.first[j] + chunk.point[n].a;
                    if (p >= x.first[j + 1]) continue;
                    A g = ds[n * at.point + t * at.tap + margin + j];
                    drows[(b * call.H + chunk.point[n].y) * call.Kh + t / call.Kw] += g;
                    dcolumns[((b * y.low + i) * call.W + p) * call.Kw + t % call.Kw] += g;
                }
    }

    // ---- planar

    template <int NS>
    void scatter_planes(Scratch<A> &ring, int64_t channels, const A *weights, const SapaMap &high, int64_t c, int64_t C,
                        int64_t i, const Chunk &chunk) {
        for (int64_t until_c = c + C; c < until_c;) {
            bool is_pair = c + 2 <= until_c;
            pack_chunk<T>(&high_rows[margin], 2 * length, length, high, b, c, 1 + is_pair, chunk, 0,
                          length - 2 * margin, x);
            if (is_pair)
                scatter_channels<NS, 2>(ring, channels, weights, c, i);
            else
                scatter_channels<NS, 1>(ring, channels, weights, c, i);
            c += 1 + is_pair;
        }
    }

    template <int NS, int NC>
    void scatter_channels(Scratch<A> &ring, int64_t channels, const A *weights, int64_t c, int64_t i) {
        int64_t t = std::max<int64_t>(0, from - (i - ry)), last = std::min(call.Kh, until - (i - ry));
        while (t < last) {
            A *out[5 * NC];
            int n_rows = last - t >= 5 ? 5 : last - t >= 3 ? 3 : 1;
            for (int r = 0; r < n_rows; ++r)
                for (int e = 0; e < NC; ++e)
                    out[r * NC + e] = &ring[(((i + t + r - ry) % call.Kh) * channels + c + e) * length + margin];
            const A *from_tap = weights + t * call.Kw * at.tap + margin, *a = &high_rows[margin];
            int64_t lanes = (x.low + Simd<A>::N - 1) / Simd<A>::N * Simd<A>::N;
            switch (n_rows) {
                case 1:
                    scatter_rows<NS, 1, NC>(out, from_tap, at, a, length, 2 * length, call.Kw, lanes);
                    break;
                case 3:
                    scatter_rows<NS, 3, NC>(out, from_tap, at, a, length, 2 * length, call.Kw, lanes);
                    break;
                default:
                    scatter_rows<NS, 5, NC>(out, from_tap, at, a, length, 2 * length, call.Kw, lanes);
            }
            t += n_rows;
        }
    }

    // ---- channels_last

    Scratch<A> wide_high = Scratch<A>(MOST_POINTS * call.C), wide_low, zeros = zeros_of<A>(call.C);

    // the C channels of point p of a row, in the accumulation type
    const A *channels_of(A *scratch, const SapaMap &m, int64_t c, int64_t C, int64_t row, int64_t p) const {
        const T *from_map = address<T>(m, b, c, row, p);
        if constexpr (std::is_same_v<T, A>) return from_map;
        widen_row<T>(scratch, from_map, 1, C);
        return scratch;
    }

    void points_of(const A **a, const Chunk &chunk, int64_t c, int64_t C, int64_t j) {
        for (int n = 0; n < chunk.n; ++n) {
            int64_t p = x.first[j] + chunk.point[n].a;
            a[n] = p < x.first[j + 1] ? channels_of(&wide_high[n * call.C], call.y, c, C, chunk.point[n].y, p)
                                      : zeros.data();
        }
    }

    void dot_cells(int64_t i, int64_t j, const Chunk &chunk, int64_t c, int64_t C) {
        wide_low.resize(3 * C);
        for (int64_t l = 0; l < std::min(STRIP, x.low - j); ++l) {
            const A *a[MOST_POINTS];
            points_of(a, chunk, c, C, j + l);
            for (int64_t t = 0; t < P; t += 3) {
                const A *taps[3];
                for (int64_t e = 0; e < 3; ++e) {
                    int64_t r = i + (t + e) / call.Kw - ry, q = j + l + (t + e) % call.Kw - rx;
                    bool is_inside = t + e < P && r >= 0 && r < y.low && q >= 0 && q < x.low;
                    taps[e] = is_inside ? channels_of(&wide_low[e * C], call.v, c, C, r, q) : zeros.data();
                }
                A sums[MOST_POINTS][3] = {};
                A *to[MOST_POINTS] = {sums[0], sums[1], sums[2], sums[3]};
                with_points(chunk.n, [&](auto NS) { dot_cell<NS, 3>(to, a, taps, C); });
                for (int n = 0; n < chunk.n; ++n)
                    for (int64_t e = 0; e < std::min<int64_t>(3, P - t); ++e)
                        ds[n * at.point + (t + e) * at.tap + margin + j + l] = sums[n][e];
            }
        }
        for (int n = 0; n < chunk.n; ++n)
            for (int64_t t = 0; t < P; ++t)
                for (int64_t l = x.low - j; l < this->lanes(j); ++l) ds[n * at.point + t * at.tap + margin + j + l] = 0;
    }

    template <int NS> void scatter_cells(int64_t i, const Chunk &chunk, int64_t c, int64_t C) {
        constexpr int N = Simd<A>::N;
        std::vector<A *> out(P);
        for (int64_t j = 0; j < x.low; ++j) {
            const A *a[MOST_POINTS], *weights[MOST_POINTS];
            points_of(a, chunk, c, C, j);
            for (int n = 0; n < NS; ++n) weights[n] = &w[n * at.point + margin + j];
            for (int64_t t = 0; t < P; ++t) {
                int64_t r = i + t / call.Kw - ry, q = j + t % call.Kw - rx;
                out[t] = owns(r) && q >= 0 && q < x.low ? &ring_v[((r % call.Kh) * x.low + q) * call.C + c] : nullptr;
            }
            int64_t e = 0;
            for (; e + 2 * N <= C; e += 2 * N) scatter_cell<NS, 2>(out.data(), weights, at.tap, a, P, e);
            for (; e + N <= C; e += N) scatter_cell<NS, 1>(out.data(), weights, at.tap, a, P, e);
            for (; e < C; ++e)
                for (int64_t t = 0; t < P; ++t)
                    for (int n = 0; n < NS && out[t]; ++n) out[t][e] += weights[n][t * at.tap] * a[n][e];
        }
    }

    // ---- a low-res row that nothing more falls on

    void flush(int64_t r) {
        if (!owns(r)) return;
        for (int64_t d = 0; d < call.D && is_attend; ++d)
            write_row(&ring_k[((r % call.Kh) * call.D + d) * length + margin], call.dk, d, r);
        for (int64_t c = 0; c < call.C && !is_last; ++c)
            write_row(&ring_v[((r % call.Kh) * call.C + c) * length + margin], call.dv, c, r);
        for (int64_t j = 0; j < x.low && is_last; ++j) {
            A *sums = &ring_v[((r % call.Kh) * x.low + j) * call.C];
            narrow_row(address<T>(call.dv, b, 0, r, j), sums, call.C);
            std::fill_n(sums, call.C, A(0));
        }
    }

    void write_row(A *sums, const SapaMap &m, int64_t c, int64_t r) {
        narrow_rows(address<T>(m, b, c, r, 0), m.channel, m.column, sums, 0, 1, x.low);
        std::fill_n(sums, x.low, A(0));
    }
};

template <class T> void backward(const SapaCall &call) {
    using A = typename Wide<T>::type;
    Axis y(call.H, call.low_h), x(call.W, call.low_w);
    int64_t threads = omp_get_max_threads(), parts = call.B % threads ? std::min<int64_t>(threads, call.low_h) : 1;
    std::vector<double> drows(call.rows ? call.B * call.H * call.Kh : 0),
        dcolumns(call.rows ? call.B * call.low_h * call.W * call.Kw : 0);
    in_parallel(
        call.B * parts, 2 * products(call), [&] { return Backward<T>(call, y, x, 1); },
        [&](Backward<T> &kernel, int64_t task) {
            int64_t part = task % parts;
            kernel.run(task / parts, part * call.low_h / parts, (part + 1) * call.low_h / parts, drows.data(),
                       dcolumns.data());
        });
    auto reduce = [](const std::vector<double> &partial, void *to, int64_t n) {
        for (int64_t i = 0; i < n; ++i) {
            double total = 0;
            for (size_t p = i; p < partial.size(); p += n) total += partial[p];
            static_cast<A *>(to)[i] = A(total);
        }
    };
    if (call.rows) {
        reduce(drows, call.drows, call.H * call.Kh);
        reduce(dcolumns, call.dcolumns, call.W * call.Kw);
    }
}

}  // namespace sapa::SAPA_ISA
