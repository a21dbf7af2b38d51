// attend and assemble. A task is a strip of cells of eight low-res rows, which share most of the rows they read. It
// makes its weights, which stay in the first-level cache while the channels stream past.
//
// Planar: sixteen channels at a time are copied to a small block, with zeros around the image. Two channels and four
// points make eight sums: each weight vector is used twice, each vector of values four times. As these are written, the
// lines of the next two channels are asked for, because a plane is pages away from the next.
//
// Channels_last: of each cell, three vectors of channels and four points make twelve sums. Its weights are brought
// together first, as each is used for every channel.
#pragma once
#include "parallel.h"
#include "window.h"

namespace sapa::SAPA_ISA {

constexpr int64_t ROWS = 8;  // of cells, that share what they read

template <class T> struct Forward : Window<T> {
    using Base = Window<T>;
    using A = typename Wide<T>::type;
    using Base::call, Base::x, Base::y, Base::P, Base::ry, Base::rx, Base::padded;
    static constexpr int N = Simd<A>::N;
    static constexpr int64_t CHANNELS = 16, PART = 32 * N;  // of a block, planar and channels_last

    bool is_last = call.C > 1 && call.v.channel == 1 && call.y.channel == 1;
    static constexpr Strip at{};
    int64_t block = MOST_POINTS * P * STRIP;
    Scratch<A> w = Scratch<A>(Base::rows * block);
    int64_t b = 0, i = 0, n_rows = 0;
    const Chunk *chunks[ROWS];  // the same part of the points of each row of cells

    using Base::Base;

    // the strip at j of rows [row, row + n) of cells, which have the same number of points
    void run(int64_t batch, int64_t row, int64_t n, int64_t j) {
        b = batch, i = row, n_rows = n;
        int64_t C = call.C / call.G;
        std::vector<Chunk> parts[ROWS];
        for (int64_t r = 0; r < n; ++r) parts[r] = chunks_of_row(y, x, i + r);
        for (size_t part = 0; part < parts[0].size(); ++part) {
            for (int64_t r = 0; r < n; ++r) chunks[r] = &parts[r][part];
            for (int64_t group = 0; group < call.G; ++group) {
                weights(group, j);
                with_points(chunks[0]->n, [&](auto NS) {
                    if (is_last)
                        cells<NS>(j, group * C, C);
                    else
                        planes<NS>(j, group * C, C);
                });
            }
        }
    }

    void weights(int64_t group, int64_t j) {
        if (call.q.data) this->scores(w.data(), block, at, b, i, j, chunks, n_rows);
        for (int64_t r = 0; r < n_rows; ++r) {
            A *to = &w[r * block];
            if (!call.q.data) this->read(to, at, group, b, j, *chunks[r]);
            for (int n = 0; n < chunks[r]->n && call.q.data; ++n)
                weights_of(to + n * at.point, at.tap, P, this->lanes(j), call.normalize);
        }
    }

    // ---- planar: vectors along the cells

    Scratch<A> values = Scratch<A>(is_last ? 0 : (call.Kh + Base::rows - 1) * CHANNELS * padded);

    template <int NS> void planes(int64_t j, int64_t c, int64_t C) {
        int64_t row = CHANNELS * padded;
        for (int64_t first = c, until = c + C; c < until; c += CHANNELS) {
            int64_t n = std::min(CHANNELS, until - c);
            this->pack_low_rows(values.data(), row, call.v, c, n, b, i, n_rows, j, c > first);
            for (int64_t r = 0; r < n_rows; ++r)
                this->template weigh<NS>(call.y, b, c, n, *chunks[r], j, &w[r * block], at, &values[r * row], row);
        }
    }

    // ---- channels_last: one cell at a time, vectors along the channels

    static constexpr bool is_wide = std::is_same_v<T, A>;
    std::vector<const A *> taps = std::vector<const A *>(P);
    Scratch<A> zeros = zeros_of<A>(PART), dropped = Scratch<A>(PART);
    Scratch<A> wide_rows = Scratch<A>(is_last && !is_wide ? call.Kh * padded * PART : 0);
    Scratch<A> wide_results = Scratch<A>(MOST_POINTS * PART);
    Scratch<A> by_cell = Scratch<A>(is_last ? STRIP * MOST_POINTS * P : 0);  // [cell][tap][point]
    struct Near {
        static constexpr int64_t point = 1, tap = MOST_POINTS;
    };

    template <int NS> void cells(int64_t j, int64_t c, int64_t C) {
        int64_t inside = std::min(STRIP, x.low - j);
        for (int64_t r = 0; r < n_rows; ++r) {
            narrow_rows(by_cell.data(), 1, MOST_POINTS * P, &w[r * block], STRIP, MOST_POINTS * P, inside);
            for (int64_t done = 0; done < C; done += PART) {
                int64_t n = std::min(PART, C - done);
                if (!is_wide) widen_cells(i + r, j, c + done, n);
                for (int64_t l = 0; l < inside; ++l) cell<NS>(r, j, l, c + done, n);
            }
        }
    }

    template <int NS> void cell(int64_t r, int64_t j, int64_t l, int64_t c, int64_t C) {
        const Chunk &chunk = *chunks[r];
        const A *values_of = wide_rows.data();
        if constexpr (is_wide) values_of = address<T>(call.v, b, c, 0, 0);
        int64_t step = is_wide ? call.v.column : PART;
        for (int64_t ty = 0, t = 0; ty < call.Kh; ++ty) {
            int64_t row = i + r + ty - ry, left = j + l - rx;
            bool is_row_inside = row >= 0 && row < y.low;
            int64_t first = is_wide ? row * call.v.row + left * step : (ty * padded + l) * step;
            for (int64_t tx = 0; tx < call.Kw; ++tx, ++t)
                taps[t] =
                    is_row_inside && left + tx >= 0 && left + tx < x.low ? values_of + first + tx * step : zeros.data();
        }
        A *out[NS];
        T *to[NS];
        for (int n = 0; n < NS; ++n) {
            int64_t p = x.first[j + l] + chunk.point[n].a;
            bool is_there = p < x.first[j + l + 1];
            to[n] = is_there ? address<T>(call.y, b, c, chunk.point[n].y, p) : reinterpret_cast<T *>(dropped.data());
            out[n] = is_wide ? reinterpret_cast<A *>(to[n]) : &wide_results[n * PART];
        }
        weigh_cell<NS>(out, &by_cell[l * MOST_POINTS * P], Near{}, taps.data(), P, C);
        for (int n = 0; n < NS && !is_wide; ++n) narrow_row(to[n], out[n], C);
    }

    void widen_cells(int64_t row, int64_t j, int64_t c, int64_t C) {
        for (int64_t t = 0; t < call.Kh; ++t)
            for (int64_t l = 0; l < STRIP + call.Kw - 1; ++l) {
                int64_t r = row + t - ry, s = j + l - rx;
                if (r >= 0 && r < y.low && s >= 0 && s < x.low)
                    widen_row<T>(&wide_rows[(t * padded + l) * PART], address<T>(call.v, b, c, r, s), 1, C);
            }
    }
};

template <class T> void forward(const SapaCall &call) {
    Axis y(call.H, call.low_h), x(call.W, call.low_w);
    // as many rows a task as leave every thread two tasks
    int64_t strips = (call.low_w + STRIP - 1) / STRIP;
    int64_t most = std::max<int64_t>(1, call.B * call.low_h * strips / (2 * omp_get_max_threads()));
    int64_t n = y.is_whole ? std::min(ROWS, most) : 1, blocks = (call.low_h + n - 1) / n;
    in_parallel(
        call.B * blocks * strips, products(call), [&] { return Forward<T>(call, y, x, n); },
        [&](Forward<T> &kernel, int64_t task) {
            int64_t i = task / strips % blocks * n;
            kernel.run(task / (strips * blocks), i, std::min(n, call.low_h - i), task % strips * STRIP);
        });
}

}  // namespace sapa::SAPA_ISA
