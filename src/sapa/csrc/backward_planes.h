// Backward, planar: vectors run along the cells of a row.
//
// A block of channels of v is copied for all rows of cells, with zeros around the image, and one of g for each. From
// there the gradients of the weights are summed in registers over the channels of a block, strip by strip, and those of
// the values over the points that fall on a lane: two channels and five rows of the window make ten sums.
#pragma once
#include "sums.h"

namespace sapa::SAPA_ISA {

template <class T> struct BackwardPlanes : Sums<T> {
    using Base = Sums<T>;
    using A = typename Wide<T>::type;
    using Base::at, Base::block, Base::length, Base::margin, Base::lanes_of_row, Base::ring;
    using Base::b, Base::i, Base::n_rows, Base::chunks, Base::from, Base::until;
    using Base::call, Base::x, Base::y, Base::ry, Base::rx;

    Scratch<A> high_rows = zeros_of<A>(MOST_POINTS * DEPTH * length);
    Scratch<A> low_rows = zeros_of<A>(Base::is_last ? 0 : ring * DEPTH * length);

    using Base::Base;

    // gradients of the weights, and of the values: of a block of channels, each from one reading of g and v
    template <int NS> void planes(int64_t c, int64_t C) {
        this->shift(this->w);
        for (int64_t d = 0; d < C; d += DEPTH) {
            int64_t depth = std::min(DEPTH, C - d), row = depth * length;
            for (int64_t t = 0; t < call.Kh + n_rows - 1; ++t)
                pack_low<T>(&low_rows[t * row + margin - rx], length, call.v, b, c + d, depth, i + t - ry, -rx,
                            lanes_of_row + call.Kw - 1, y.low, x.low, true);
            for (int64_t r = 0; r < n_rows; ++r) {
                pack_points(call.y, c + d, depth, r);
                for (int64_t j = 0; j < x.low; j += STRIP)
                    for (int64_t t = 0; t < call.Kh; ++t)
                        dot_planar<NS>(&this->ds[r * block + t * call.Kw * at.tap + margin + j], at,
                                       &high_rows[margin + j], length, &low_rows[(r + t) * row + margin - rx + j],
                                       length, depth, call.Kw, this->lanes(j), d == 0);
                scatter_planes<NS>(this->ring_v, call.C, c + d, depth, r);
            }
        }
    }

    void pack_points(const SapaMap &high, int64_t c, int64_t depth, int64_t r) {
        pack_chunk<T>(&high_rows[margin], depth * length, length, high, b, c, depth, *chunks[r], 0, length - 2 * margin,
                      x);
    }

    template <int NS> void scatter_planes(Scratch<A> &sums, int64_t channels, int64_t c, int64_t depth, int64_t r) {
        int64_t e = 0;
        for (; e + 2 <= depth; e += 2) scatter_channels<NS, 2>(sums, channels, c, e, depth, r);
        for (; e < depth; ++e) scatter_channels<NS, 1>(sums, channels, c, e, depth, r);
    }

    // channels from the e-th on of a block of `depth` that begins at c
    template <int NS, int NC>
    void scatter_channels(Scratch<A> &sums, int64_t channels, int64_t c, int64_t e, int64_t depth, int64_t r) {
        int64_t top = i + r - ry, t = std::max<int64_t>(0, from - top), last = std::min(call.Kh, until - top);
        while (t < last) {
            A *out[5 * NC];
            int n_taps = last - t >= 5 ? 5 : last - t >= 3 ? 3 : 1;
            for (int k = 0; k < n_taps; ++k)
                for (int n = 0; n < NC; ++n)
                    out[k * NC + n] = &sums[(((top + t + k) % ring) * channels + c + e + n) * lanes_of_row];
            const A *from_tap = &this->shifted[r * block + t * call.Kw * at.tap + margin];
            const A *a = &high_rows[margin + e * length];
            int64_t point = depth * length;
            switch (n_taps) {
                case 1:
                    scatter_rows<NS, 1, NC>(out, from_tap, at, a, length, point, call.Kw, lanes_of_row);
                    break;
                case 3:
                    scatter_rows<NS, 3, NC>(out, from_tap, at, a, length, point, call.Kw, lanes_of_row);
                    break;
                default:
                    scatter_rows<NS, 5, NC>(out, from_tap, at, a, length, point, call.Kw, lanes_of_row);
            }
            t += n_taps;
        }
    }
};

}  // namespace sapa::SAPA_ISA
