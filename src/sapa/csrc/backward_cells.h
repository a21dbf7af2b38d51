// Backward, channels_last: one cell at a time, vectors run along the channels.
#pragma once
#include "backward_planes.h"

namespace sapa::SAPA_ISA {

template <class T> struct BackwardCells : BackwardPlanes<T> {
    using Base = BackwardPlanes<T>;
    using A = typename Wide<T>::type;
    using Base::at, Base::block, Base::margin, Base::ring;
    using Base::b, Base::i, Base::chunks;
    using Base::call, Base::x, Base::y, Base::P, Base::ry, Base::rx;

    Scratch<A> wide_high = Scratch<A>(MOST_POINTS * call.C), wide_low, zeros = zeros_of<A>(call.C);

    using Base::Base;

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

    void dot_cells(int64_t row, int64_t j, int64_t c, int64_t C) {
        const Chunk &chunk = *chunks[row];
        A *sums_of_row = &this->ds[row * block + margin + j];
        wide_low.resize(3 * C);
        for (int64_t l = 0; l < std::min(STRIP, x.low - j); ++l) {
            const A *a[MOST_POINTS];
            points_of(a, chunk, c, C, j + l);
            for (int64_t t = 0; t < P; t += 3) {
                const A *taps[3];
                for (int64_t e = 0; e < 3; ++e) {
                    int64_t r = i + row + (t + e) / call.Kw - ry, q = j + l + (t + e) % call.Kw - rx;
                    bool is_inside = t + e < P && r >= 0 && r < y.low && q >= 0 && q < x.low;
                    taps[e] = is_inside ? channels_of(&wide_low[e * C], call.v, c, C, r, q) : zeros.data();
                }
                A sums[MOST_POINTS][3] = {};
                A *to[MOST_POINTS] = {sums[0], sums[1], sums[2], sums[3]};
                with_points(chunk.n, [&](auto NS) { dot_cell<NS, 3>(to, a, taps, C); });
                for (int n = 0; n < chunk.n; ++n)
                    for (int64_t e = 0; e < std::min<int64_t>(3, P - t); ++e)
                        sums_of_row[n * at.point + (t + e) * at.tap + l] = sums[n][e];
            }
        }
        for (int n = 0; n < chunk.n; ++n)
            for (int64_t t = 0; t < P; ++t)
                for (int64_t l = x.low - j; l < this->lanes(j); ++l) sums_of_row[n * at.point + t * at.tap + l] = 0;
    }

    template <int NS> void cells(int64_t r, int64_t c, int64_t C) {
        for (int64_t j = 0; j < x.low; j += STRIP) dot_cells(r, j, c, C);
        scatter_cells<NS>(r, c, C);
    }

    template <int NS> void scatter_cells(int64_t row, int64_t c, int64_t C) {
        constexpr int N = Simd<A>::N;
        std::vector<A *> out(P);
        for (int64_t j = 0; j < x.low; ++j) {
            const A *a[MOST_POINTS], *weights[MOST_POINTS];
            points_of(a, *chunks[row], c, C, j);
            for (int n = 0; n < NS; ++n) weights[n] = &this->w[row * block + n * at.point + margin + j];
            for (int64_t t = 0; t < P; ++t) {
                int64_t r = i + row + t / call.Kw - ry, q = j + t % call.Kw - rx;
                out[t] = this->owns(r) && q >= 0 && q < x.low ? &this->ring_v[((r % ring) * x.low + q) * call.C + c]
                                                              : nullptr;
            }
            int64_t e = 0;
            for (; e + 2 * N <= C; e += 2 * N) scatter_cell<NS, 2>(out.data(), weights, at.tap, a, P, e);
            for (; e + N <= C; e += N) scatter_cell<NS, 1>(out.data(), weights, at.tap, a, P, e);
            for (; e < C; ++e)
                for (int64_t t = 0; t < P; ++t)
                    for (int n = 0; n < NS && out[t]; ++n) out[t][e] += weights[n][t * at.tap] * a[n][e];
        }
    }
};

}  // namespace sapa::SAPA_ISA
