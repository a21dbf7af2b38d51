// What both layouts share in the backward pass: the planes of a few rows of cells, and the sums of the low-res rows
// they fall on, which are kept in rings and written once.
#pragma once
#include "window.h"

namespace sapa::SAPA_ISA {

constexpr int64_t ROWS_BACK = 2;  // of cells, done together

template <class T> struct Sums : Window<T> {
    using A = typename Wide<T>::type;
    using Window<T>::call, Window<T>::x, Window<T>::y, Window<T>::P, Window<T>::rx;

    int64_t b = 0, from = 0, until = 0;  // the low-res rows that this task owns
    int64_t i = 0, n_rows = 0;           // the rows of cells
    const Chunk *chunks[ROWS_BACK];      // the same part of the points of each
    bool is_attend = call.q.data != nullptr,
         is_last = call.C > 1 && call.v.channel == 1 && call.y.channel == 1 && call.dv.channel == 1;

    // planes of a whole row of cells, with room for the window on both sides
    int64_t margin = (rx + 15) / 16 * 16, length = (x.low + STRIP - 1) / STRIP * STRIP + 2 * margin;
    Planes at{P * length, length};
    int64_t block = MOST_POINTS * P * length;
    Scratch<A> s = zeros_of<A>(this->rows * block), w = s, ds = s, shifted = s;
    // rows that get sums, without room on the sides
    int64_t ring = call.Kh + this->rows - 1, lanes_of_row = (x.low + Simd<A>::N - 1) / Simd<A>::N * Simd<A>::N;
    Scratch<A> ring_k = zeros_of<A>(ring * call.D * lanes_of_row);
    Scratch<A> ring_v = zeros_of<A>(ring * call.C * (is_last ? x.low : lanes_of_row));

    using Window<T>::Window;

    bool owns(int64_t r) const { return r >= from && r < until; }

    // lanes that are no points must not reach their neighbours
    void clear_beyond(Scratch<A> &planes) {
        for (int64_t r = 0; r < n_rows; ++r)
            for (int n = 0; n < chunks[r]->n; ++n)
                for (int64_t t = 0; t < P; ++t) {
                    A *plane = &planes[r * block + n * at.point + t * at.tap + margin];
                    std::fill(plane + x.low, plane + length - margin, A(0));
                    for (int64_t j = 0; j < x.low && !x.is_whole; ++j)
                        if (x.first[j] + chunks[r]->point[n].a >= x.first[j + 1]) plane[j] = 0;
                }
    }

    // so that a lane holds the weights of the points that fall on it, and `scatter_rows` reads them aligned
    void shift(const Scratch<A> &planes) {
        for (int64_t r = 0; r < n_rows; ++r)
            for (int n = 0; n < chunks[r]->n; ++n)
                for (int64_t t = 0; t < P; ++t) {
                    int64_t o = r * block + n * at.point + t * at.tap + margin;
                    std::copy_n(&planes[o + rx - t % call.Kw], lanes_of_row, &shifted[o]);
                }
    }

    // writes a low-res row that nothing more falls on
    void flush(int64_t r) {
        if (!owns(r)) return;
        for (int64_t d = 0; d < call.D && is_attend; ++d)
            write_row(&ring_k[((r % ring) * call.D + d) * lanes_of_row], call.dk, d, r);
        for (int64_t c = 0; c < call.C && !is_last; ++c)
            write_row(&ring_v[((r % ring) * call.C + c) * lanes_of_row], call.dv, c, r);
        for (int64_t j = 0; j < x.low && is_last; ++j) {
            A *sums = &ring_v[((r % ring) * x.low + j) * call.C];
            narrow_row(address<T>(call.dv, b, 0, r, j), sums, call.C);
            std::fill_n(sums, call.C, A(0));
        }
    }

    void write_row(A *sums, const SapaMap &m, int64_t c, int64_t r) {
        narrow_rows(address<T>(m, b, c, r, 0), m.channel, m.column, sums, 0, 1, x.low);
        std::fill_n(sums, lanes_of_row, A(0));
    }
};

}  // namespace sapa::SAPA_ISA
