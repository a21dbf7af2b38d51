// Scores to weights and back, for the lanes of one point: s is [P][plane] with stride `tap`.
#pragma once
#include <limits>
#include "abi.h"
#include "simd.h"

namespace sapa::SAPA_ISA {

constexpr double EPSILON = 1e-6;

template <class A> inline A activation(A s, int normalize) {
    if (normalize == SAPA_RELU) return s > 0 ? s : (s != s ? s : A(0));
    if (normalize == SAPA_SIGMOID) return 1 / (1 + std::exp(-s));
    return s > 20 ? s : std::log1p(std::exp(s));  // as PyTorch does
}

template <class A> inline A slope(A s, A f, int normalize) {
    if (normalize == SAPA_RELU) return A(s > 0);
    if (normalize == SAPA_SIGMOID) return f * (1 - f);
    return 1 / (1 + std::exp(-s));
}

template <class A> void softmax(A *s, int64_t tap, int64_t P, int64_t lanes) {
    for (int64_t l = 0; l < lanes; l += Simd<A>::N) {
        Vec<A> peak = splat(std::numeric_limits<A>::lowest());
        for (int64_t t = 0; t < P; ++t) {
            Vec<A> x = load(s + t * tap + l);
            peak = x > peak ? x : peak;
        }
        Vec<A> total{};
        for (int64_t t = 0; t < P; ++t) {
            Vec<A> e = exp_of_negative(load(s + t * tap + l) - peak);
            total += e;
            store(s + t * tap + l, e);
        }
        Vec<A> scale = 1 / (total == 0 ? splat(A(1)) : total);
        for (int64_t t = 0; t < P; ++t) store(s + t * tap + l, load(s + t * tap + l) * scale);
    }
}

template <class A> A total_activation(const A *s, int64_t tap, int64_t P, int normalize) {
    A total = 0;
    for (int64_t t = 0; t < P; ++t) total += activation(s[t * tap], normalize);
    return total + A(EPSILON);
}

// in place
template <class A> void weights_of(A *s, int64_t tap, int64_t P, int64_t lanes, int normalize) {
    const A left_out = -std::numeric_limits<A>::infinity();
    if (normalize == SAPA_SOFTMAX) return softmax(s, tap, P, lanes);
    for (int64_t l = 0; l < lanes; ++l) {
        A total = normalize == SAPA_NONE ? 1 : total_activation(s + l, tap, P, normalize);
        for (int64_t t = 0; t < P; ++t) {
            A &x = s[t * tap + l];
            x = normalize == SAPA_NONE ? (x == left_out ? A(0) : x) : activation(x, normalize) / total;
        }
    }
}

// dw becomes ds, in place; s are the scores, w the weights
template <class A>
void weights_backward(A *dw, const A *s, const A *w, int64_t tap, int64_t P, int64_t lanes, int normalize) {
    const A left_out = -std::numeric_limits<A>::infinity();
    if (normalize == SAPA_NONE) {
        for (int64_t t = 0; t < P; ++t)
            for (int64_t l = 0; l < lanes; ++l)
                if (s[t * tap + l] == left_out) dw[t * tap + l] = 0;
        return;
    }
    for (int64_t l = 0; l < lanes; l += Simd<A>::N) {
        Vec<A> mean{};
        for (int64_t t = 0; t < P; ++t) mean += load(w + t * tap + l) * load(dw + t * tap + l);
        for (int64_t t = 0; t < P; ++t) {
            Vec<A> centred = load(dw + t * tap + l) - mean;
            store(dw + t * tap + l, normalize == SAPA_SOFTMAX ? load(w + t * tap + l) * centred : centred);
        }
    }
    if (normalize == SAPA_SOFTMAX) return;
    for (int64_t l = 0; l < lanes; ++l) {
        A total = total_activation(s + l, tap, P, normalize);
        for (int64_t t = 0; t < P; ++t) {
            A x = s[t * tap + l];
            // as PyTorch has it: what is cut off has no gradient, not even of a number that is none
            bool is_cut = normalize == SAPA_RELU && x <= 0;
            dw[t * tap + l] = is_cut ? 0 : dw[t * tap + l] * slope(x, activation(x, normalize), normalize) / total;
        }
    }
}

}  // namespace sapa::SAPA_ISA
