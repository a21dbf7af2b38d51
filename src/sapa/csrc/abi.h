// The C ABI between Python and the kernels. The letters are those of docs/operators.md.
#pragma once
#include <cstdint>

#define SAPA_EXPORT __attribute__((visibility("default")))

extern "C" {

struct SapaMap {
    void *data;
    int64_t batch, channel, row, column;  // strides, in elements
};

struct SapaCall {
    SapaMap q, k, v, w, y;       // y: the output, or its gradient in a backward call
    SapaMap dq, dk, dv, dw;      // outputs of a backward call
    const void *rows, *columns;  // [H, Kh] [W, Kw] in the accumulation type, or null
    void *drows, *dcolumns;
    int64_t B, C, D, H, W, low_h, low_w, Kh, Kw, G;
    int32_t dtype, normalize, border;
};

struct SapaProjection {
    SapaMap x, y, dx;  // y: the output, or its gradient in a backward call
    const void *weight, *bias, *gamma,
        *beta;               // [D, C] [D] [C] [C] in the accumulation type; all but weight may be null
    void *moments, *totals;  // of a backward call: [D, C] sums of dy times norm(x), [D] sums of dy
    int64_t B, C, D, H, W;
    double eps;
    int32_t dtype, is_normed;
};

enum SapaDtype { SAPA_FLOAT64, SAPA_FLOAT32, SAPA_BFLOAT16, SAPA_FLOAT16 };
enum SapaNormalize { SAPA_SOFTMAX, SAPA_RELU, SAPA_SIGMOID, SAPA_SOFTPLUS, SAPA_NONE };
enum SapaBorder { SAPA_ZERO, SAPA_MASK };

// attend if q is given, else assemble. Each returns null, or words that say what went wrong.
SAPA_EXPORT const char *sapa_forward(const SapaCall *);
SAPA_EXPORT const char *sapa_backward(const SapaCall *);
SAPA_EXPORT const char *sapa_project(const SapaProjection *);
SAPA_EXPORT const char *sapa_project_backward(const SapaProjection *);
SAPA_EXPORT const char *sapa_isa();  // the instruction set in use, or null
}
