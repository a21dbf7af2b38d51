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

template <class T, class A> inline void widen_row(A *to, const T *from, int64_t stride, int64_t n) {
    constexpr int N = Simd<A>::N;
    int64_t i = 0;
    if constexpr (std::is_same_v<T, A>) {
        if (stride == 1)
            for (; i + N <= n; i += N) store(to + i, load(from + i));
        else if (stride == 2)
            for (; i + N < n; i += N) store(to + i, halve<A>(load(from + 2 * i), load(from + 2 * i + N), Lanes<A>{}));
    } else if (stride == 1) {
        for (; i < n; ++i) to[i] = widen(from[i]);
    }
    for (; i < n; ++i) to[i] = widen(from[i * stride]);
}

// columns [x, x + n) of a low-res row, zero outside the image
template <class T, class A>
inline void pack_low(A *to, const SapaMap &m, int64_t b, int64_t c, int64_t y, int64_t x, int64_t n, int64_t h,
                     int64_t w) {
    int64_t from = std::max<int64_t>(0, -x), until = std::max(from, std::min(n, w - x));
    if (y < 0 || y >= h) from = until = 0;
    for (int64_t i = 0; i < from; ++i) to[i] = 0;
    widen_row<T>(to + from, address<T>(m, b, c, y, x + from), m.column, until - from);
    for (int64_t i = until; i < n; ++i) to[i] = 0;
}

// point a of cells [j, j + n) of a high-res row; zero where a cell has no such point, and beyond the image
template <class T, class A>
inline void pack_high(A *to, const SapaMap &m, int64_t b, int64_t c, int64_t y, int64_t a, int64_t j, int64_t n,
                      const Axis &x) {
    int64_t inside = std::min(n, x.low - j);
    const T *row = address<T>(m, b, c, y, 0);
    if (x.is_whole()) {
        widen_row<T>(to, row + (x.most * j + a) * m.column, x.most * m.column, inside);
    } else {
        for (int64_t l = 0; l < inside; ++l) {
            int64_t p = x.first[j + l] + a;
            to[l] = p < x.first[j + l + 1] ? widen(row[p * m.column]) : 0;
        }
    }
    std::fill(to + inside, to + n, A(0));
}

template <class T, class A>
inline void unpack_high(const A *from, const SapaMap &m, int64_t b, int64_t c, int64_t y, int64_t a, int64_t j,
                        int64_t n, const Axis &x) {
    int64_t inside = std::min(n, x.low - j);
    T *row = address<T>(m, b, c, y, 0);
    if (x.is_whole()) {
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

// both points of each cell, to a row twice as long
template <class T, class A> inline void unpack_pairs(const A *even, const A *odd, T *to, int64_t n) {
    constexpr int N = Simd<A>::N;
    int64_t l = 0;
    if constexpr (std::is_same_v<T, A>)
        for (; l + N <= n; l += N) {
            Vec<A> low, high;
            interleave<A>(load(even + l), load(odd + l), low, high, Lanes<A>{});
            store(to + 2 * l, low);
            store(to + 2 * l + N, high);
        }
    for (; l < n; ++l) {
        to[2 * l] = narrow<T>(even[l]);
        to[2 * l + 1] = narrow<T>(odd[l]);
    }
}

}  // namespace sapa::SAPA_ISA
