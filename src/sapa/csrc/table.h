// What each instruction set offers.
#pragma once
#include "abi.h"

namespace sapa {

struct Table {
    void (*forward)(const SapaCall &);
    void (*backward)(const SapaCall &);
    void (*project)(const SapaProjection &);
    void (*project_backward)(const SapaProjection &);
};

namespace baseline {
extern const Table table;
}
namespace avx2 {
extern const Table table;
}
namespace avx512 {
extern const Table table;
}

}  // namespace sapa
