// Compiled once for each instruction set, with SAPA_ISA as the name of its namespace.
#include "backward.h"
#include "forward.h"
#include "project.h"
#include "project_backward.h"
#include "table.h"

namespace sapa::SAPA_ISA {

// calls f with a number of the element type
template <class F> void with_dtype(int32_t dtype, F f) {
    switch (dtype) {
        case SAPA_FLOAT64:
            return f(double());
        case SAPA_FLOAT32:
            return f(float());
        case SAPA_BFLOAT16:
            return f(bfloat16());
        case SAPA_FLOAT16:
            return f(float16());
    }
}

static void run_forward(const SapaCall &call) {
    with_dtype(call.dtype, [&](auto x) { forward<decltype(x)>(call); });
}
static void run_backward(const SapaCall &call) {
    with_dtype(call.dtype, [&](auto x) { backward<decltype(x)>(call); });
}
static void run_project(const SapaProjection &call) {
    with_dtype(call.dtype, [&](auto x) { project<decltype(x)>(call); });
}
static void run_project_backward(const SapaProjection &call) {
    with_dtype(call.dtype, [&](auto x) { project_backward<decltype(x)>(call); });
}

extern const Table table{run_forward, run_backward, run_project, run_project_backward};

}  // namespace sapa::SAPA_ISA
