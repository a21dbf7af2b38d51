// Fresh memory of an output: the first touch of a page costs more than the sums that fill it. In large pages there are
// few of them. Only pages that lie inside the map are asked for, so none is larger than what is written.
#pragma once
#include <cstdint>
#if defined(__linux__)
#include <sys/mman.h>
#endif
#include "abi.h"

namespace sapa {

constexpr uintptr_t PAGE = 2 << 20;

inline void ask_for_large_pages([[maybe_unused]] const SapaMap &map, [[maybe_unused]] int64_t B,
                                [[maybe_unused]] int32_t dtype) {
#if defined(__linux__)
    constexpr int64_t SIZE[] = {8, 4, 2, 2};  // bytes, in the order of SapaDtype
    auto start = reinterpret_cast<uintptr_t>(map.data);
    uintptr_t end = start + B * map.batch * SIZE[dtype];  // outputs are dense
    uintptr_t from = (start + PAGE - 1) / PAGE * PAGE, until = end / PAGE * PAGE;
    // an advice that may be declined: what it returns does not matter
    if (map.data && from < until) madvise(reinterpret_cast<void *>(from), until - from, MADV_HUGEPAGE);
#endif
}

}  // namespace sapa
