// The entry points, and the choice of the instruction set when the library is loaded. SAPA_ISA in the environment names
// one to use instead, which must be one this machine has.
#include <cstdlib>
#include <cstring>
#include <exception>
#include <initializer_list>
#include "pages.h"
#include "table.h"

namespace sapa {
namespace {

struct Isa {
    const char *name;
    const Table *table;
    bool is_supported;
};

Isa choose() {
#if defined(__x86_64__)
    const Isa all[] = {
        {"avx512", &avx512::table,
         __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
             __builtin_cpu_supports("avx512vl")},
        {"avx2", &avx2::table, __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")},
        {"baseline", &baseline::table, true},
    };
#else
    const Isa all[] = {{"baseline", &baseline::table, true}};
#endif
    const char *wanted = std::getenv("SAPA_ISA");
    for (const Isa &isa : all)
        if (isa.is_supported && (!wanted || !*wanted || !std::strcmp(wanted, isa.name))) return isa;
    return {nullptr, nullptr, false};
}

const Isa isa = choose();

template <class F> const char *guarded(F f) {
    if (!isa.table) return "SAPA_ISA names an instruction set this machine does not have";
    try {
        f();
        return nullptr;
    } catch (const std::exception &) {
        return "out of memory";
    }
}

}  // namespace
}  // namespace sapa

extern "C" {
const char *sapa_forward(const SapaCall *call) {
    sapa::ask_for_large_pages(call->y, call->B, call->dtype);
    return sapa::guarded([&] { sapa::isa.table->forward(*call); });
}
const char *sapa_backward(const SapaCall *call) {
    for (const SapaMap *map : {&call->dq, &call->dk, &call->dv, &call->dw})
        sapa::ask_for_large_pages(*map, call->B, call->dtype);
    return sapa::guarded([&] { sapa::isa.table->backward(*call); });
}
const char *sapa_project(const SapaProjection *call) {
    sapa::ask_for_large_pages(call->y, call->B, call->dtype);
    return sapa::guarded([&] { sapa::isa.table->project(*call); });
}
const char *sapa_project_backward(const SapaProjection *call) {
    sapa::ask_for_large_pages(call->dx, call->B, call->dtype);
    return sapa::guarded([&] { sapa::isa.table->project_backward(*call); });
}
const char *sapa_isa() { return sapa::isa.name; }
}
