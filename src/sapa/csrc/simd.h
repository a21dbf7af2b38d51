// Vectors as wide as the instruction set this file is compiled for, and the element types in memory.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>
#include <new>
#include <utility>
#include <vector>

#if defined(__AVX512F__)
#define SAPA_VECTOR_BYTES 64
#elif defined(__AVX__)
#define SAPA_VECTOR_BYTES 32
#else
#define SAPA_VECTOR_BYTES 16
#endif

namespace sapa::SAPA_ISA {

struct bfloat16 {
    uint16_t bits;
};
#if defined(__aarch64__)
using float16 = __fp16;  // GCC has _Float16 in C++ from version 13 on
#else
using float16 = _Float16;
#endif

template <class A> struct Simd {
    typedef A V __attribute__((vector_size(SAPA_VECTOR_BYTES)));
    static constexpr int N = SAPA_VECTOR_BYTES / sizeof(A);
};
template <class A> using Vec = typename Simd<A>::V;

template <class A> inline Vec<A> load(const A *p) {
    Vec<A> v;
    std::memcpy(&v, p, sizeof v);
    return v;
}
// in a register, used several times: left alone, GCC loads it again for each use
template <class V> inline V keep(V v) {
#if defined(__x86_64__)
    asm("" : "+v"(v));
#elif defined(__aarch64__)
    asm("" : "+w"(v));
#endif
    return v;
}
template <class A> inline void store(A *p, Vec<A> v) { std::memcpy(p, &v, sizeof v); }
template <class A> inline Vec<A> splat(A x) { return x - Vec<A>{}; }

template <class A> inline A sum(Vec<A> v) {
    A total = 0;
    for (int i = 0; i < Simd<A>::N; ++i) total += v[i];
    return total;
}

// a0 b0 a1 b1 ... as two vectors
template <class A, int... I>
inline void interleave(Vec<A> a, Vec<A> b, Vec<A> &low, Vec<A> &high, std::integer_sequence<int, I...>) {
    constexpr int N = sizeof...(I);
    low = __builtin_shufflevector(a, b, (I / 2 + I % 2 * N)...);
    high = __builtin_shufflevector(a, b, (N / 2 + I / 2 + I % 2 * N)...);
}
// every second number of two vectors, which overlap in one number if the second starts early
template <bool is_early, class A, int... I> inline Vec<A> halve(Vec<A> a, Vec<A> b, std::integer_sequence<int, I...>) {
    constexpr int N = sizeof...(I);
    return __builtin_shufflevector(a, b, (2 * I + (is_early && 2 * I >= N))...);
}
template <class A, int... I> inline Vec<A> odds(Vec<A> a, Vec<A> b, std::integer_sequence<int, I...>) {
    return __builtin_shufflevector(a, b, (2 * I + 1)...);
}
template <class A> using Lanes = std::make_integer_sequence<int, Simd<A>::N>;

// rows of a square of N vectors become its columns
template <class A> inline void transpose(Vec<A> *v) {
    constexpr int N = Simd<A>::N;
    for (int stage = 1; stage < N; stage *= 2) {
        Vec<A> next[N];
        for (int i = 0; i < N / 2; ++i) interleave<A>(v[i], v[i + N / 2], next[2 * i], next[2 * i + 1], Lanes<A>{});
        for (int i = 0; i < N; ++i) v[i] = next[i];
    }
}

// scratch whose vectors do not straddle cache lines, and which is not filled unless a value is given
template <class A> struct Aligned {
    using value_type = A;
    A *allocate(size_t n) { return static_cast<A *>(::operator new(n * sizeof(A), std::align_val_t(64))); }
    void deallocate(A *p, size_t) { ::operator delete(p, std::align_val_t(64)); }
    template <class B> void construct(B *p) { ::new (static_cast<void *>(p)) B; }
    template <class B, class V> void construct(B *p, V &&value) { ::new (static_cast<void *>(p)) B(value); }
    template <class B> struct rebind {
        using other = Aligned<B>;
    };
    bool operator==(const Aligned &) const { return true; }
    bool operator!=(const Aligned &) const { return false; }
};
template <class A> using Scratch = std::vector<A, Aligned<A>>;
template <class A> Scratch<A> zeros_of(int64_t n) { return Scratch<A>(n, A(0)); }

// accumulation type of each element type
template <class T> struct Wide {
    using type = float;
};
template <> struct Wide<double> {
    using type = double;
};

inline float widen(bfloat16 x) {
    uint32_t bits = uint32_t(x.bits) << 16;
    float y;
    std::memcpy(&y, &bits, 4);
    return y;
}
inline float widen(float16 x) { return float(x); }
inline float widen(float x) { return x; }
inline double widen(double x) { return x; }

template <class T, class A> inline T narrow(A x) { return T(x); }
template <> inline bfloat16 narrow<bfloat16, float>(float x) {
    uint32_t bits;
    std::memcpy(&bits, &x, 4);
    uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    return {uint16_t(x != x ? 0x7fc0 : rounded)};
}

// a vector of the accumulation type, from and to elements of any type
typedef uint16_t Bits16 __attribute__((vector_size(SAPA_VECTOR_BYTES / 2)));
typedef uint32_t Bits32 __attribute__((vector_size(SAPA_VECTOR_BYTES)));
typedef float16 Halves __attribute__((vector_size(SAPA_VECTOR_BYTES / 2)));

template <class To, class From> inline To as(const From &from) {
    static_assert(sizeof(To) == sizeof(From));
    To to;
    std::memcpy(&to, &from, sizeof to);
    return to;
}
inline Vec<double> load_wide(const double *p) { return load(p); }
inline Vec<float> load_wide(const float *p) { return load(p); }
inline Vec<float> load_wide(const bfloat16 *p) {
    Bits16 bits;
    std::memcpy(&bits, p, sizeof bits);
    return as<Vec<float>>(__builtin_convertvector(bits, Bits32) << 16);
}
inline Vec<float> load_wide(const float16 *p) {
    Halves halves;
    std::memcpy(&halves, p, sizeof halves);
    return __builtin_convertvector(halves, Vec<float>);
}
inline void store_narrow(double *p, Vec<double> v) { store(p, v); }
inline void store_narrow(float *p, Vec<float> v) { store(p, v); }
inline void store_narrow(bfloat16 *p, Vec<float> v) {
    Bits32 bits = as<Bits32>(v), rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    Bits16 kept = __builtin_convertvector(v != v ? Bits32{} + 0x7fc0 : rounded, Bits16);
    std::memcpy(p, &kept, sizeof kept);
}
inline void store_narrow(float16 *p, Vec<float> v) {
    Halves halves = __builtin_convertvector(v, Halves);
    std::memcpy(p, &halves, sizeof halves);
}

// e^x for x <= 0, to about one unit in the last place; 0 where it would be denormal
inline Vec<float> exp_of_negative(Vec<float> x) {
    typedef int32_t I __attribute__((vector_size(SAPA_VECTOR_BYTES)));
    const float shift = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
    Vec<float> bounded = x < -87.0f ? splat(-87.0f) : x;
    Vec<float> t = bounded * 1.44269504088896341f + shift;
    Vec<float> n = t - shift;
    Vec<float> r = bounded - n * 0.693359375f + n * 2.12194440e-4f;
    Vec<float> p = splat(1.9875691500e-4f);
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    I exponent;
    std::memcpy(&exponent, &t, sizeof t);
    exponent <<= 23;
    I bits;
    std::memcpy(&bits, &p, sizeof p);
    bits += exponent;
    std::memcpy(&p, &bits, sizeof p);
    Vec<float> kept = x < -87.0f ? Vec<float>{} : p;
    return x != x ? x : kept;
}
inline Vec<double> exp_of_negative(Vec<double> x) {
    for (int i = 0; i < Simd<double>::N; ++i) x[i] = std::exp(x[i]);
    return x;
}

}  // namespace sapa::SAPA_ISA
