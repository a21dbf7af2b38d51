// attend_backward and assemble_backward. A task owns the low-res rows [from, until) of dk and dv and gathers all that
// falls on them: it goes over its own rows of cells and over the Kh/2 rows above and below, whose weights it computes
// again. Nothing is shared between tasks, and each number is summed in the same order however the rows are divided, so
// results do not depend on the number of threads. Two rows of cells are done together, an even one and the next however
// the rows are divided: they share most of what they read, and most of the rows they add to.
#pragma once
#include "backward_cells.h"
#include "parallel.h"

namespace sapa::SAPA_ISA {

template <class T> struct Backward : BackwardCells<T> {
    using Base = BackwardCells<T>;
    using A = typename Wide<T>::type;
    using Base::at, Base::block, Base::margin, Base::is_attend, Base::is_last, Base::s, Base::w, Base::ds;
    using Base::b, Base::i, Base::n_rows, Base::chunks, Base::from, Base::until, Base::owns;
    using Base::call, Base::x, Base::y, Base::P, Base::ry, Base::padded;

    using Base::Base;

    void run(int64_t batch, int64_t from_row, int64_t until_row, double *drows, double *dcolumns) {
        b = batch, from = from_row, until = until_row;
        int64_t last = std::min(y.low, until + ry);
        for (i = std::max<int64_t>(0, from - ry) / this->rows * this->rows; i < last; i += n_rows) {
            n_rows = std::min(this->rows, last - i);
            std::vector<Chunk> parts[ROWS_BACK];
            for (int64_t r = 0; r < n_rows; ++r) parts[r] = chunks_of_row(y, x, i + r);
            for (size_t part = 0; part < parts[0].size(); ++part) {
                for (int64_t r = 0; r < n_rows; ++r) chunks[r] = &parts[r][part];
                for (int64_t group = 0; group < call.G; ++group) cell_rows(group, drows, dcolumns);
            }
            for (int64_t r = 0; r < n_rows; ++r) this->flush(i + r - ry);
        }
        for (int64_t r = std::max(from, last - ry); r < until; ++r) this->flush(r);
    }

  private:
    void cell_rows(int64_t group, double *drows, double *dcolumns) {
        int64_t C = call.C / call.G, c = group * C;
        for (int64_t j = 0; j < x.low; j += STRIP) {
            if (is_attend) this->scores(&s[margin + j], block, at, b, i, j, chunks, n_rows);
            for (int64_t r = 0; r < n_rows; ++r) weights(group, r, j);
        }
        this->clear_beyond(w);
        with_points(chunks[0]->n, [&](auto NS) {
            if (is_last)
                for (int64_t r = 0; r < n_rows; ++r) this->template cells<NS>(r, c, C);
            else
                this->template planes<NS>(c, C);
        });
        for (int64_t r = 0; r < n_rows && is_attend; ++r)
            for (int n = 0; n < chunks[r]->n; ++n)
                for (int64_t j = 0; j < x.low; j += STRIP) {
                    int64_t o = r * block + n * at.point + margin + j;
                    weights_backward(&ds[o], &s[o], &w[o], at.tap, P, this->lanes(j), call.normalize);
                }
        this->clear_beyond(ds);
        for (int64_t r = 0; r < n_rows; ++r) {
            if (owns(i + r) && is_attend) gradients_of_queries(r, drows, dcolumns);
            for (int n = 0; n < chunks[r]->n && owns(i + r) && !is_attend; ++n)
                for (int64_t t = 0; t < P; ++t)
                    unpack_high<T>(&ds[r * block + n * at.point + t * at.tap + margin], call.dw, b, group * P + t,
                                   chunks[r]->point[n].y, chunks[r]->point[n].a, 0, x.low, x);
        }
        if (!is_attend) return;
        this->shift(ds);
        with_points(chunks[0]->n, [&](auto NS) {
            for (int64_t d = 0; d < call.D; d += DEPTH)
                for (int64_t r = 0; r < n_rows; ++r) {
                    int64_t depth = std::min(DEPTH, call.D - d);
                    this->pack_points(call.q, d, depth, r);
                    this->template scatter_planes<NS>(this->ring_k, call.D, d, depth, r);
                }
        });
    }

    void weights(int64_t group, int64_t r, int64_t j) {
        int64_t lane = r * block + margin + j;
        if (!is_attend) return this->read(&w[lane], at, group, b, j, *chunks[r]);
        for (int n = 0; n < chunks[r]->n; ++n) {
            int64_t o = lane + n * at.point;
            for (int64_t t = 0; t < P; ++t) std::copy_n(&s[o + t * at.tap], this->lanes(j), &w[o + t * at.tap]);
            weights_of(&w[o], at.tap, P, this->lanes(j), call.normalize);
        }
    }

    void gradients_of_queries(int64_t r, double *drows, double *dcolumns) {
        const Chunk &chunk = *chunks[r];
        const A *gradient = &ds[r * block + margin];
        for (int64_t j = 0; j < x.low; j += STRIP)
            for (int64_t d = 0; d < call.D; d += DEPTH) {
                int64_t depth = std::min(DEPTH, call.D - d), row = DEPTH * padded;
                this->pack_low_rows(this->low.data(), row, call.k, d, depth, b, i + r, 1, j);
                with_points(chunk.n, [&](auto NS) {
                    this->template weigh<NS>(call.dq, b, d, depth, chunk, j, gradient + j, at, this->low.data(), row);
                });
            }
        if (!call.rows) return;
        for (int n = 0; n < chunk.n; ++n)
            for (int64_t t = 0; t < P; ++t)
                for (int64_t j = 0; j < x.low; ++j) {
                    int64_t p = x.first[j] + chunk.point[n].a;
                    if (p >= x.first[j + 1]) continue;
                    A g = gradient[n * at.point + t * at.tap + j];
                    drows[(b * call.H + chunk.point[n].y) * call.Kh + t / call.Kw] += g;
                    dcolumns[((b * y.low + i + r) * call.W + p) * call.Kw + t % call.Kw] += g;
                }
    }
};

template <class T> void backward(const SapaCall &call) {
    using A = typename Wide<T>::type;
    Axis y(call.H, call.low_h), x(call.W, call.low_w);
    int64_t threads = omp_get_max_threads(), parts = call.B % threads ? std::min<int64_t>(threads, call.low_h) : 1;
    int64_t rows = y.is_whole ? std::min(ROWS_BACK, call.low_h) : 1;
    std::vector<double> drows(call.rows ? call.B * call.H * call.Kh : 0),
        dcolumns(call.rows ? call.B * call.low_h * call.W * call.Kw : 0);
    in_parallel(
        call.B * parts, 2 * products(call), [&] { return Backward<T>(call, y, x, rows); },
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
