// Between maps in memory, of any element type and strides, and planes of numbers in the accumulation type.
#pragma once
#include <algorithm>
#include <type_traits>
#include "abi.h"
#include "cells.h"
#include "simd.h"

namespace sapa::SAPA_ISA {

template <class T> inline T *address(const SapaMap &m, int64_t b, int64_t c, int64_t y, int64_t x) {
    return static_cast<T *>(m.data) + b * m.batch + c * m.channel + y * m.row + x * m.column;
}

// Rows of so many channels later are asked for ahead of time: planes are pages apart, and no processor foresees that.
// Planes are often a power of two apart, where the caches have room for eight: what is copied, and what is asked for.
constexpr int64_t AHEAD = 4;

// asks for the lines of n numbers ahead of time
template <class T> inline void expect(const T *from, int64_t n) {
    for (int64_t i = 0; i < n; i += 64 / sizeof(T)) __builtin_prefetch(from + i);
    __builtin_prefetch(from + n - 1);
}

// n numbers `stride` apart
template <class T, class A> inline void widen_row(A *to, const T *from, int64_t stride, int64_t n) {
    constexpr int N = Simd<A>::N;
    int64_t i = 0;
    if (stride == 1 && n >= N) {
        for (; i + N <= n; i += N) store(to + i, load_wide(from + i));
        if (i < n) store(to + n - N, load_wide(from + n - N));
        return;
    }
    if (stride == 2) {
        for (; i + N < n; i += N)
            store(to + i, halve<false, A>(load_wide(from + 2 * i), load_wide(from + 2 * i + N), Lanes<A>{}));
        if (i + N == n) {
            store(to + i, halve<true, A>(load_wide(from + 2 * i), load_wide(from + 2 * i + N - 1), Lanes<A>{}));
            return;
        }
    }
    for (; i < n; ++i) to[i] = widen(from[i * stride]);
}

template <class T, class A> inline void narrow_row(T *to, const A *from, int64_t n) {
    constexpr int N = Simd<A>::N;
    int64_t i = 0;
    for (; i + N <= n; i += N) store_narrow(to + i, load(from + i));
    for (; i < n; ++i) to[i] = narrow<T>(from[i]);
}

// to[c * length + i] = from[c * channel + i * column] for C channels and n columns
template <class T, class A>
inline void widen_rows(A *to, int64_t length, const T *from, int64_t channel, int64_t column, int64_t C, int64_t n) {
    constexpr int N = Simd<A>::N;
    int64_t done = 0;
    if (channel == 1 && column != 1)
        for (; done + N <= C; done += N) {
            int64_t i = 0;
            for (; i + N <= n; i += N) {
                Vec<A> square[N];
                for (int l = 0; l < N; ++l) square[l] = load_wide(from + (i + l) * column + done);
                transpose<A>(square);
                for (int l = 0; l < N; ++l) store(to + (done + l) * length + i, square[l]);
            }
            for (; i < n; ++i)
                for (int l = 0; l < N; ++l) to[(done + l) * length + i] = widen(from[i * column + done + l]);
        }
    for (; done < C; ++done) {
        if (column == 1 && done + AHEAD < C) expect(from + (done + AHEAD) * channel, n);
        widen_row<T>(to + done * length, from + done * channel, column, n);
    }
}

// and back: to[c * channel + i * column] = from[c * length + i]
template <class T, class A>
inline void narrow_rows(T *to, int64_t channel, int64_t column, const A *from, int64_t length, int64_t C, int64_t n) {
    constexpr int N = Simd<A>::N;
    int64_t done = 0;
    if (channel == 1 && column != 1)
        for (; done + N <= C; done += N) {
            int64_t i = 0;
            for (; i + N <= n; i += N) {
                Vec<A> square[N];
                for (int l = 0; l < N; ++l) square[l] = load(from + (done + l) * length + i);
                transpose<A>(square);
                for (int l = 0; l < N; ++l) store_narrow(to + (i + l) * column + done, square[l]);
            }
            for (; i < n; ++i)
                for (int l = 0; l < N; ++l) to[i * column + done + l] = narrow<T>(from[(done + l) * length + i]);
        }
    for (; done < C; ++done) {
        T *row = to + done * channel;
        const A *numbers = from + done * length;
        if (column == 1) narrow_row(row, numbers, n);
        for (int64_t i = 0; i < n && column != 1; ++i) row[i * column] = narrow<T>(numbers[i]);
    }
}

// columns [x, x + n) of C channels of a low-res row, zero outside the image; the zeros beside it may be there already
template <class T, class A>
inline void pack_low(A *to, int64_t length, const SapaMap &m, int64_t b, int64_t c, int64_t C, int64_t y, int64_t x,
                     int64_t n, int64_t h, int64_t w, bool is_framed = false) {
    int64_t from = std::max<int64_t>(0, -x), until = std::max(from, std::min(n, w - x));
    bool is_outside = y < 0 || y >= h;
    if (is_outside) from = until = 0;
    for (int64_t e = 0; e < C && (is_outside || !is_framed); ++e) {
        std::fill(to + e * length, to + e * length + from, A(0));
        std::fill(to + e * length + until, to + e * length + n, A(0));
    }
    if (from < until)
        widen_rows<T>(to + from, length, address<T>(m, b, c, y, x + from), m.channel, m.column, C, until - from);
}

// point a of cells [j, j + n) of C channels of a high-res row; zero where a cell has no such point, and beyond the
// image
template <class T, class A>
inline void pack_high(A *to, int64_t length, const SapaMap &m, int64_t b, int64_t c, int64_t C, int64_t y, int64_t a,
                      int64_t j, int64_t n, const Axis &x) {
    int64_t inside = std::min(n, x.low - j);
    if (x.is_whole)
        widen_rows<T>(to, length, address<T>(m, b, c, y, x.most * j + a), m.channel, x.most * m.column, C, inside);
    for (int64_t e = 0; e < C; ++e) {
        const T *row = address<T>(m, b, c + e, y, 0);
        for (int64_t l = 0; l < inside && !x.is_whole; ++l) {
            int64_t p = x.first[j + l] + a;
            to[e * length + l] = p < x.first[j + l + 1] ? widen(row[p * m.column]) : 0;
        }
        std::fill(to + e * length + inside, to + e * length + n, A(0));
    }
}

// the points of a chunk, `point` apart: both of a pair of neighbours from one reading of their row
template <class T, class A>
inline void pack_chunk(A *to, int64_t point, int64_t length, const SapaMap &m, int64_t b, int64_t c, int64_t C,
                       const Chunk &chunk, int64_t j, int64_t n, const Axis &x) {
    constexpr int N = Simd<A>::N;
    int64_t inside = std::min(n, x.low - j);
    bool is_double = x.is_whole && x.most == 2 && m.column == 1 && inside % N == 0;
    for (int p = 0; p < chunk.n; ++p, to += point) {
        const Point &at = chunk.point[p];
        if (!is_double || at.a != 0 || p + 1 == chunk.n) {
            pack_high<T>(to, length, m, b, c, C, at.y, at.a, j, n, x);
            continue;
        }
        for (int64_t e = 0; e < C; ++e) {
            const T *row = address<T>(m, b, c + e, at.y, 2 * j);
            A *even = to + e * length, *odd = even + point;
            if (e + AHEAD < C) expect(row + AHEAD * m.channel, 2 * inside);
            for (int64_t l = 0; l < inside; l += N) {
                Vec<A> low = load_wide(row + 2 * l), high = load_wide(row + 2 * l + N);
                store(even + l, halve<false, A>(low, high, Lanes<A>{}));
                store(odd + l, odds<A>(low, high, Lanes<A>{}));
            }
            std::fill(even + inside, even + n, A(0));
            std::fill(odd + inside, odd + n, A(0));
        }
        ++p, to += point;
    }
}

template <class T, class A>
inline void unpack_high(const A *from, const SapaMap &m, int64_t b, int64_t c, int64_t y, int64_t a, int64_t j,
                        int64_t n, const Axis &x) {
    int64_t inside = std::min(n, x.low - j);
    T *row = address<T>(m, b, c, y, 0);
    if (x.is_whole) {
        T *to = row + (x.most * j + a) * m.column;
        int64_t stride = x.most * m.column;
        for (int64_t l = 0; l < inside; ++l) to[l * stride] = narrow<T>(from[l]);
    } else {
        for (int64_t l = 0; l < inside; ++l) {
            int64_t p = x.first[j + l] + a;
            if (p < x.first[j + l + 1]) row[p * m.column] = narrow<T>(from[l]);
        }
    }
}

}  // namespace sapa::SAPA_ISA
