// Tasks divided over the threads; each thread has a kernel of its own. A thread that runs out of memory must not throw
// out of a parallel region, which would end the process: the others finish, and then the caller is told.
#pragma once
#include <omp.h>
#include <atomic>
#include <cstdint>
#include <new>

namespace sapa::SAPA_ISA {

constexpr int64_t SMALL = 1 << 18;  // products that one thread makes sooner than it wakes the others

template <class Make, class Run> void in_parallel(int64_t tasks, int64_t products, Make make, Run run) {
    std::atomic<bool> is_out_of_memory{false};
    auto share = [&](int64_t from, int64_t until) {
        try {
            auto kernel = make();
            for (int64_t task = from; task < until; ++task) run(kernel, task);
        } catch (const std::bad_alloc &) {
            is_out_of_memory = true;
        }
    };
    if (tasks < 2 || products < SMALL) {
        share(0, tasks);
    } else {
#pragma omp parallel
        {
            int64_t n = omp_get_num_threads(), me = omp_get_thread_num();
            share(tasks * me / n, tasks * (me + 1) / n);
        }
    }
    if (is_out_of_memory) throw std::bad_alloc();
}

}  // namespace sapa::SAPA_ISA
