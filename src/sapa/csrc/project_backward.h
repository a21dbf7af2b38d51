// The gradients of project. With t = gamma * weight^T dy at a point and z = norm(x) there,
//
//     dx = (t - mean(t) - z * mean(t * z)) / deviation,
//
// and every gradient of a parameter follows from two sums over all points, of z dy^T and of dy. The points are divided
// into a fixed number of parts, each summed in order and then added in order, so that results do not depend on the
// number of threads.
#pragma once
#include "project.h"

namespace sapa::SAPA_ISA {

constexpr int64_t PARTS = 8;

// C rounded up to what `product` does at once
template <class A> constexpr int64_t moments_width(int64_t C) {
    constexpr int64_t step = VECTORS_AT_ONCE * Simd<A>::N;
    return (C + step - 1) / step * step;
}

template <class T> struct ProjectionBackward : Projection<T> {
    using Base = Projection<T>;
    using A = typename Wide<T>::type;
    using Base::call, Base::C, Base::D, Base::padded, Base::x, Base::y, Base::scale, Base::N, Base::STRIP;

    int64_t rows = in_fours(C), width = moments_width<A>(C);
    Scratch<A> transposed = zeros_of<A>(padded * rows), t = Scratch<A>(rows * STRIP);  // [D][C], [C][points]
    Scratch<A> x_by_point = zeros_of<A>(STRIP * width),
               y_by_point = zeros_of<A>(STRIP * padded);  // [points][C], [points][D]

    ProjectionBackward(const SapaProjection &call) : Base(call) {
        for (int64_t c = 0; c < C; ++c)
            for (int64_t d = 0; d < D; ++d) transposed[d * rows + c] = Base::folded[c * padded + d];
    }

    // adds to moments [D][width] and totals [D]
    void block(int64_t block, A *moments, double *totals) {
        Base::each_strip(block, [&] {
            for (int64_t c = 0; c < C && call.is_normed; ++c)
                for (int64_t l = 0; l < STRIP; l += N)
                    store(&x[c * STRIP + l], load(&x[c * STRIP + l]) * load(&scale[l]));
            Base::read(y.data(), call.y, 0, D);
            if (call.dx.data) gradient_of_x();
            for (int64_t d = 0; d < D; ++d)
                for (int64_t l = 0; l < Base::n; ++l) totals[d] += y[d * STRIP + l];
            narrow_rows(x_by_point.data(), 1, width, x, STRIP, C, STRIP);
            narrow_rows(y_by_point.data(), 1, padded, y.data(), STRIP, D, STRIP);
            for (int64_t d = 0; d < padded; d += ROWS_AT_ONCE)
                product(moments + d * width, &y_by_point[d], padded, x_by_point.data(), width, STRIP);
        });
    }

    void gradient_of_x() {
        multiply(t.data(), transposed.data(), rows, y.data(), STRIP, D);
        for (int64_t l = 0; l < STRIP && call.is_normed; l += VECTORS_AT_ONCE * N) {
            Vec<A> mean[VECTORS_AT_ONCE], along[VECTORS_AT_ONCE];
            auto place = [&](int64_t c, int v) { return c * STRIP + l + v * N; };
            sum_rows<A>(mean, C, [&](int64_t c, int v) { return load(&t[place(c, v)]); });
            sum_rows<A>(along, C, [&](int64_t c, int v) { return load(&t[place(c, v)]) * load(x + place(c, v)); });
            for (int v = 0; v < VECTORS_AT_ONCE; ++v) mean[v] /= A(C), along[v] /= A(C);
            for (int64_t c = 0; c < C; ++c)
                for (int v = 0; v < VECTORS_AT_ONCE; ++v) {
                    Vec<A> kept = load(&t[place(c, v)]) - mean[v] - load(x + place(c, v)) * along[v];
                    store(&t[place(c, v)], kept * load(&scale[l + v * N]));
                }
        }
        narrow_rows(Base::at(call.dx, 0), call.dx.channel, call.dx.column, t.data(), STRIP, C, Base::n);
    }
};

template <class T> void project_backward(const SapaProjection &call) {
    using A = typename Wide<T>::type;
    int64_t blocks = Lines(call).blocks(Projection<T>::BLOCK), parts = std::min(PARTS, blocks);
    int64_t width = moments_width<A>(call.C), size = in_fours(call.D) * width;
    Scratch<A> moments = zeros_of<A>(parts * size);
    std::vector<double> totals(parts * call.D);
    in_parallel(
        parts, 2 * products(call), [&] { return ProjectionBackward<T>(call); },
        [&](ProjectionBackward<T> &kernel, int64_t part) {
            for (int64_t block = blocks * part / parts; block < blocks * (part + 1) / parts; ++block)
                kernel.block(block, &moments[part * size], &totals[part * call.D]);
        });
    auto add = [&](const auto *partial, int64_t step) {
        double total = 0;
        for (int64_t part = 0; part < parts; ++part) total += partial[part * step];
        return A(total);
    };
    A *to = static_cast<A *>(call.moments);
    for (int64_t d = 0; d < call.D; ++d) {
        static_cast<A *>(call.totals)[d] = add(&totals[d], call.D);
        for (int64_t c = 0; c < call.C; ++c) to[d * call.C + c] = add(&moments[d * width + c], size);
    }
}

}  // namespace sapa::SAPA_ISA
