// Compiled once for each instruction set, with SAPA_ISA as the name of its namespace.
#include "backward.h"
#include "forward.h"
#include "table.h"

namespace sapa::SAPA_ISA {

static void run_forward(const SapaCall &call) {
    switch (call.dtype) {
        case SAPA_FLOAT64:
            return forward<double>(call);
        case SAPA_FLOAT32:
            return forward<float>(call);
        case SAPA_BFLOAT16:
            return forward<bfloat16>(call);
        case SAPA_FLOAT16:
            return forward<float16>(call);
    }
}

static void run_backward(const SapaCall &call, int threads) {
    switch (call.dtype) {
        case SAPA_FLOAT64:
            return backward<double>(call, threads);
        case SAPA_FLOAT32:
            return backward<float>(call, threads);
        case SAPA_BFLOAT16:
            return backward<bfloat16>(call, threads);
        case SAPA_FLOAT16:
            return backward<float16>(call, threads);
    }
}

extern const Table table{run_forward, run_backward};

}  // namespace sapa::SAPA_ISA
