// The three linear maps of reference.py, planar and channels_last. Each is one loop nest over registers.
//
// Planar: vectors run along the cells of a row. A plane of a point is a row of `length` numbers; weights lie as
// [point][tap][plane], so the window of a lane needs no horizontal sum, and one load of a low-res row serves up to four
// points. Channels_last: vectors run along the channels, weights are broadcast.
#pragma once
#include <algorithm>
#include "cells.h"
#include "simd.h"

namespace sapa::SAPA_ISA {

// one by one: GCC turns `= {}` into a fill of memory
template <class V, int R, int C> inline void clear(V (&sums)[R][C]) {
    for (int r = 0; r < R; ++r)
        for (int c = 0; c < C; ++c) sums[r][c] = V{};
}

struct Planes {
    int64_t point, tap;  // strides of the weights
};
// the same for a strip of cells, known to the compiler
constexpr int64_t STRIP = 32;
struct Strip {
    static constexpr int64_t point = STRIP, tap = MOST_POINTS * STRIP;
    operator Planes() const { return {point, tap}; }
};

// s[n][tap tx of a row] = <a[n], b shifted by tx>, added to what is there unless it is the first part of the sum: a is
// [n][d][a_length], b is [d][b_length], at lane 0
template <int NS, int NT, class A>
inline void dot_taps(A *s, Planes at, const A *a, int64_t a_length, const A *b, int64_t b_length, int64_t D,
                     int64_t lanes, bool is_first) {
    for (int64_t l = 0; l < lanes; l += Simd<A>::N) {
        Vec<A> acc[NS][NT];
        clear(acc);
        int64_t d = 0;
        do {  // not `for`: GCC would keep the sums in memory, in case there are no channels
            Vec<A> bt[NT];
            for (int t = 0; t < NT; ++t) bt[t] = keep(load(b + d * b_length + l + t));
            for (int n = 0; n < NS; ++n) {
                Vec<A> an = keep(load(a + (n * D + d) * a_length + l));
                for (int t = 0; t < NT; ++t) acc[n][t] += an * bt[t];
            }
        } while (++d < D);
        for (int n = 0; n < NS; ++n)
            for (int t = 0; t < NT; ++t) {
                A *to = s + n * at.point + t * at.tap + l;
                store(to, is_first ? acc[n][t] : load(to) + acc[n][t]);
            }
    }
}

template <int NS, class A>
void dot_planar(A *s, Planes at, const A *a, int64_t a_length, const A *b, int64_t b_length, int64_t D, int64_t Kw,
                int64_t lanes, bool is_first) {
    int64_t t = 0;
    for (; t + 3 <= Kw; t += 3) dot_taps<NS, 3>(s + t * at.tap, at, a, a_length, b + t, b_length, D, lanes, is_first);
    if (Kw - t == 2) dot_taps<NS, 2>(s + t * at.tap, at, a, a_length, b + t, b_length, D, lanes, is_first);
    if (Kw - t == 1) dot_taps<NS, 1>(s + t * at.tap, at, a, a_length, b + t, b_length, D, lanes, is_first);
}

// y[n][c] = sum over taps of w[n][tap] * rows[c][ty] shifted by tx for C channels, NC at once, handed vector by vector
// to put(c, l, y). Not inlined, and put is a copy: all registers are taken. KW is Kw, or 0 where the compiler does not
// know it.
template <int NS, int NC, int KW, class A, class At, class Put>
__attribute__((noinline)) void weigh_planar(const A *w, At at, const A *rows, int64_t channel, int64_t row, int64_t C,
                                            int64_t Kh, int64_t Kw, int64_t lanes, Put put) {
    for (int64_t c = 0; c < C; c += NC, rows += NC * channel)
        for (int64_t l = 0; l < lanes; l += Simd<A>::N) {
            Vec<A> acc[NS][NC];
            clear(acc);
            const A *wt = w + l;
            for (int64_t i = 0; i < Kh; ++i) {
                const A *from = rows + i * row + l;
#pragma GCC unroll 8
                for (int64_t j = 0; j < (KW ? KW : Kw); ++j, wt += at.tap) {
                    Vec<A> b[NC];
                    for (int e = 0; e < NC; ++e) b[e] = keep(load(from + e * channel + j));
                    for (int n = 0; n < NS; ++n) {
                        Vec<A> wn = keep(load(wt + n * at.point));
                        for (int e = 0; e < NC; ++e) acc[n][e] += wn * b[e];
                    }
                }
            }
            put(c, l, acc);
        }
}

// out[r][c] += sum over tx and points of w * (a shifted back), for NR rows of the window at once. Lanes up to Kw/2 on
// both sides of a are read.
template <int NS, int NR, int NC, class A>
void scatter_rows(A *const *out, const A *w, Planes at, const A *a, int64_t a_channel, int64_t a_point, int64_t Kw,
                  int64_t lanes) {
    const A *row[NR];
    for (int r = 0; r < NR; ++r) row[r] = w + r * Kw * at.tap;
    for (int64_t l = 0; l < lanes; l += Simd<A>::N) {
        Vec<A> acc[NR][NC];
        for (int r = 0; r < NR; ++r)
            for (int c = 0; c < NC; ++c) acc[r][c] = load(out[r * NC + c] + l);
        for (int64_t j = 0; j < Kw; ++j)
            for (int n = 0; n < NS; ++n) {
                Vec<A> an[NC];
                for (int c = 0; c < NC; ++c) an[c] = keep(load(a + n * a_point + c * a_channel + l + Kw / 2 - j));
                int64_t o = n * at.point + j * at.tap + l;
                for (int r = 0; r < NR; ++r) {
                    Vec<A> wr = keep(load(row[r] + o));
                    for (int c = 0; c < NC; ++c) acc[r][c] += wr * an[c];
                }
            }
        for (int r = 0; r < NR; ++r)
            for (int c = 0; c < NC; ++c) store(out[r * NC + c] + l, acc[r][c]);
    }
}

// ---- channels_last: one cell, its points and the taps of its window

template <class A> inline Vec<A> load_part(const A *p, int64_t n) {
    Vec<A> v{};
    std::memcpy(&v, p, n * sizeof(A));
    return v;
}

// s[n][t] += <a[n], b[t]> over C channels
template <int NS, int NT, class A> inline void dot_cell(A *const *s, const A *const *a, const A *const *b, int64_t C) {
    constexpr int N = Simd<A>::N;
    Vec<A> acc[NS][NT];
    clear(acc);
    int64_t c = 0;
    for (; c + N <= C; c += N) {
        Vec<A> bt[NT];
        for (int t = 0; t < NT; ++t) bt[t] = load(b[t] + c);
        for (int n = 0; n < NS; ++n) {
            Vec<A> an = load(a[n] + c);
            for (int t = 0; t < NT; ++t) acc[n][t] += an * bt[t];
        }
    }
    if (c < C)
        for (int n = 0; n < NS; ++n)
            for (int t = 0; t < NT; ++t) acc[n][t] += load_part(a[n] + c, C - c) * load_part(b[t] + c, C - c);
    for (int n = 0; n < NS; ++n)
        for (int t = 0; t < NT; ++t) s[n][t] += sum<A>(acc[n][t]);
}

// y[n] = sum over T taps of w[n][t] * b[t]; NV vectors of channels at once
template <int NS, int NV, class A, class At>
inline void weigh_vectors(A *const *y, const A *w, At at, const A *const *b, int64_t T, int64_t c) {
    constexpr int N = Simd<A>::N;
    Vec<A> acc[NS][NV];
    clear(acc);
    int64_t t = 0;
    do {  // not `for`: GCC would keep the sums in memory, in case there are no taps
        Vec<A> bt[NV];
        for (int v = 0; v < NV; ++v) bt[v] = keep(load(b[t] + c + v * N));
        for (int n = 0; n < NS; ++n) {
            Vec<A> wn = splat(w[n * at.point]);
            for (int v = 0; v < NV; ++v) acc[n][v] += wn * bt[v];
        }
        w += at.tap;
    } while (++t < T);
    for (int n = 0; n < NS; ++n) {
        A *to = y[n] + c;
        for (int v = 0; v < NV; ++v) store(to + v * N, acc[n][v]);
    }
}

template <int NS, class A, class At>
__attribute__((noinline)) void weigh_cell(A *const *y, const A *w, At at, const A *const *b, int64_t T, int64_t C) {
    constexpr int N = Simd<A>::N, NV = NS > 2 ? 3 : NS == 2 ? 4 : 8;
    int64_t c = 0;
    for (; c + NV * N <= C; c += NV * N) weigh_vectors<NS, NV>(y, w, at, b, T, c);
    for (; c + 2 * N <= C; c += 2 * N) weigh_vectors<NS, 2>(y, w, at, b, T, c);
    for (; c + N <= C; c += N) weigh_vectors<NS, 1>(y, w, at, b, T, c);
    for (; c < C; ++c)
        for (int n = 0; n < NS; ++n) {
            A total = 0;
            for (int64_t t = 0; t < T; ++t) total += w[n * at.point + t * at.tap] * b[t][c];
            y[n][c] = total;
        }
}

// out[t] += sum over points of w[n][t] * a[n]; NV vectors of channels at once
template <int NS, int NV, class A>
inline void scatter_cell(A *const *out, const A *const *w, int64_t tap, const A *const *a, int64_t T, int64_t c) {
    constexpr int N = Simd<A>::N;
    Vec<A> an[NS][NV];
    for (int n = 0; n < NS; ++n)
        for (int v = 0; v < NV; ++v) an[n][v] = load(a[n] + c + v * N);
    for (int64_t t = 0; t < T; ++t) {
        if (!out[t]) continue;
        for (int v = 0; v < NV; ++v) {
            Vec<A> acc = load(out[t] + c + v * N);
            for (int n = 0; n < NS; ++n) acc += w[n][t * tap] * an[n][v];
            store(out[t] + c + v * N, acc);
        }
    }
}

}  // namespace sapa::SAPA_ISA
