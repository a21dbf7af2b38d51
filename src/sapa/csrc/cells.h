// Which high-res points belong to which low-res cell.
//
// The kernels work on cells: all points p with the same centre c(p) share one window. Along a row of cells, "point a of
// each cell" is one plane, and vectors run along the cells of a plane. Where the ratio is not whole, some cells have
// fewer points than others; their lanes are computed and dropped.
#pragma once
#include <cstdint>
#include <vector>

namespace sapa::SAPA_ISA {

struct Axis {
    int64_t high, low, most = 0;  // points, cells, points of the largest cell
    bool is_whole;                // all cells have as many
    std::vector<int64_t> first;   // [low + 1] the first point of each cell

    Axis(int64_t high, int64_t low) : high(high), low(low), is_whole(high % low == 0), first(low + 1) {
        for (int64_t i = 0; i <= low; ++i) {
            int64_t p = 2 * high * i - low;  // c(p) >= i from (2p + 1) * low >= 2 * high * i
            first[i] = p <= 0 ? 0 : (p + 2 * low - 1) / (2 * low);
        }
        for (int64_t i = 0; i < low; ++i) most = std::max(most, first[i + 1] - first[i]);
    }
};

struct Point {
    int64_t y, a;  // high-res row, place along x in the cell
};

constexpr int MOST_POINTS = 4;

// Points of the cells of one low-res row that are computed together: four, two or one.
struct Chunk {
    Point point[MOST_POINTS];
    int n;
};

inline std::vector<Chunk> chunks_of_row(const Axis &y, const Axis &x, int64_t i) {
    std::vector<Point> points;
    for (int64_t row = y.first[i]; row < y.first[i + 1]; ++row)
        for (int64_t a = 0; a < x.most; ++a) points.push_back({row, a});
    std::vector<Chunk> chunks;
    for (size_t done = 0; done < points.size(); done += chunks.back().n) {
        size_t left = points.size() - done;
        chunks.push_back({{}, left >= 4 ? 4 : left >= 2 ? 2 : 1});
        std::copy_n(&points[done], chunks.back().n, chunks.back().point);
    }
    return chunks;
}

}  // namespace sapa::SAPA_ISA
