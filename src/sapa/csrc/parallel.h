// Tasks for the threads, each of which has a kernel of its own. A thread does its own share in order, so that threads
// stay in pages of their own, and then what is left of the others': cores differ, and are shared with other work. A
// thread that runs out of memory must not throw out of a parallel region, which would end the process: the others
// finish, and then the caller is told.
#pragma once
#include <omp.h>
#include <atomic>
#include <cstdint>
#include <new>
#include <vector>

namespace sapa::SAPA_ISA {

constexpr int64_t SMALL = 1 << 18;  // products that one thread makes sooner than it wakes the others

template <class Make, class Run> void in_parallel(int64_t tasks, int64_t products, Make make, Run run) {
    std::atomic<bool> is_out_of_memory{false};
    std::vector<std::atomic<bool>> is_taken(tasks);
    auto work = [&](int64_t first) {
        try {
            auto kernel = make();
            for (int64_t i = 0; i < tasks; ++i) {
                int64_t task = (first + i) % tasks;
                if (!is_taken[task] && !is_taken[task].exchange(true)) run(kernel, task);
            }
        } catch (const std::bad_alloc &) {
            is_out_of_memory = true;
        }
    };
    if (tasks < 2 || products < SMALL) {
        work(0);
    } else {
#pragma omp parallel
        work(tasks * omp_get_thread_num() / omp_get_num_threads());
    }
    if (is_out_of_memory) throw std::bad_alloc();
}

}  // namespace sapa::SAPA_ISA
