// The kernels over random shapes, layouts, types and options under AddressSanitizer and UndefinedBehaviorSanitizer: `make
// sanitize`. Every map is a heap block of exactly its size, so that one number too far is a report.
#include <omp.h>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <vector>
#include "abi.h"

namespace {

std::mt19937 random_bits(0);

int64_t between(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random_bits); }

struct Blocks {
    std::vector<std::unique_ptr<char[]>> owned;
    size_t bytes;

    void *take(int64_t n, size_t size) {
        owned.push_back(std::make_unique<char[]>(n * size));  // zeros are numbers in every type
        return owned.back().get();
    }
    void *numbers(int64_t n) {
        void *p = take(n, bytes);
        for (int64_t i = 0; i < n; ++i) {
            float x = between(-100, 100) / 50.0f;
            if (bytes == 8) static_cast<double *>(p)[i] = x;
            if (bytes == 4) static_cast<float *>(p)[i] = x;
            if (bytes == 2) static_cast<uint16_t *>(p)[i] = uint16_t(between(0, 0x3c00));
        }
        return p;
    }
    SapaMap map(int64_t B, int64_t C, int64_t H, int64_t W, bool is_last) {
        void *p = numbers(B * C * H * W);
        return is_last ? SapaMap{p, C * H * W, 1, W * C, C} : SapaMap{p, C * H * W, H * W, W, 1};
    }
};

bool is_fine(const char *error) {
    if (error) std::printf("%s\n", error);
    return !error;
}

bool window_call() {
    const size_t sizes[] = {8, 4, 2, 2};
    SapaCall c{};
    c.dtype = between(0, 3), c.normalize = between(0, 4), c.border = between(0, 1);
    Blocks blocks{{}, sizes[c.dtype]};
    bool is_attend = between(0, 1), is_last = between(0, 1), is_wide = between(0, 3) == 0;
    c.B = between(1, 2), c.D = between(1, 40), c.G = is_attend ? 1 : between(1, 3), c.C = c.G * between(1, 20);
    c.low_h = between(1, 9), c.low_w = is_wide ? between(30, 70) : between(1, 12);
    c.H = c.low_h * between(1, 3) + between(0, 2), c.W = c.low_w * between(1, 3) + between(0, 2);
    c.Kh = 2 * between(0, 3) + 1, c.Kw = 2 * between(0, 4) + 1;
    int64_t P = c.Kh * c.Kw;
    c.v = blocks.map(c.B, c.C, c.low_h, c.low_w, is_last), c.dv = blocks.map(c.B, c.C, c.low_h, c.low_w, is_last);
    c.y = blocks.map(c.B, c.C, c.H, c.W, between(0, 3) ? is_last : !is_last);
    if (is_attend) {
        c.q = blocks.map(c.B, c.D, c.H, c.W, is_last), c.dq = blocks.map(c.B, c.D, c.H, c.W, is_last);
        c.k = blocks.map(c.B, c.D, c.low_h, c.low_w, is_last), c.dk = blocks.map(c.B, c.D, c.low_h, c.low_w, is_last);
        if (between(0, 1)) {
            size_t wide = c.dtype == SAPA_FLOAT64 ? 8 : 4;
            c.rows = blocks.take(c.H * c.Kh, wide), c.columns = blocks.take(c.W * c.Kw, wide);
            c.drows = blocks.take(c.H * c.Kh, wide), c.dcolumns = blocks.take(c.W * c.Kw, wide);
        }
    } else {
        c.D = 0;
        c.w = blocks.map(c.B, c.G * P, c.H, c.W, is_last), c.dw = blocks.map(c.B, c.G * P, c.H, c.W, is_last);
    }
    return is_fine(sapa_forward(&c)) && is_fine(sapa_backward(&c));
}

bool projection_call() {
    const size_t sizes[] = {8, 4, 2, 2};
    SapaProjection c{};
    c.dtype = between(0, 3), c.is_normed = between(0, 1), c.eps = 1e-5;
    Blocks blocks{{}, sizes[c.dtype]};
    Blocks wide{{}, c.dtype == SAPA_FLOAT64 ? size_t(8) : size_t(4)};
    bool is_last = between(0, 1);
    c.B = between(1, 2), c.C = between(1, 70), c.D = between(1, 40), c.H = between(1, 9), c.W = between(1, 60);
    c.x = blocks.map(c.B, c.C, c.H, c.W, is_last), c.dx = blocks.map(c.B, c.C, c.H, c.W, is_last);
    c.y = blocks.map(c.B, c.D, c.H, c.W, is_last);
    c.weight = wide.numbers(c.D * c.C), c.bias = between(0, 1) ? wide.numbers(c.D) : nullptr;
    if (c.is_normed) c.gamma = wide.numbers(c.C), c.beta = wide.numbers(c.C);
    c.moments = wide.take(c.D * c.C, wide.bytes), c.totals = wide.take(c.D, wide.bytes);
    return is_fine(sapa_project(&c)) && is_fine(sapa_project_backward(&c));
}

}  // namespace

int main(int n, char **arguments) {
    int64_t rounds = n > 1 ? std::atoll(arguments[1]) : 300;
    for (int64_t i = 0; i < rounds; ++i) {
        omp_set_num_threads(int(between(1, 3)));
        if (!window_call() || !projection_call()) return 1;
    }
    std::printf("%s: %lld rounds, no report\n", sapa_isa(), static_cast<long long>(rounds));
}
