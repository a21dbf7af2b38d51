"""Strips of rows: every map between the two grids, computed for some rows as it is computed for all.

A strip is all high-res rows whose centres are the low-res rows [top, bottom). Each function here gives a point the same
bits whatever strip it is in, so that a picture of any size can be made piece by piece.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor

from sapa.functional import attend
from sapa.geometry import Size, centres, nearness, taps

Strip = tuple[int, int]  # low-res rows [top, bottom)


@dataclass(frozen=True)
class Grid:
    """The high-res size, the low-res size, and where their points lie."""

    size: Size
    low: Size
    device: torch.device

    def strips(self, rows: int) -> Iterator[Strip]:
        """All low-res rows, at most this many at a time."""
        h = self.low[0]
        return pairwise([*range(0, h, rows), h])

    def rows(self, strip: Strip) -> slice:
        """The high-res rows of a strip."""
        (H, _), (h, _) = self.size, self.low
        # c(p) >= i from p >= H * i / h - 1/2 on
        return slice(*(-(-(2 * H * i - h) // (2 * h)) if i else 0 for i in strip))

    def bilinear(self, x: Tensor, strip: Strip) -> Tensor:
        """Rows of F.interpolate(x, size, mode="bilinear"): [B, C, h, w] to [B, C, rows, W]."""
        (H, W), (h, _), rows = self.size, self.low, self.rows(strip)
        p = torch.arange(rows.start, rows.stop, device=self.device)
        place = (((2 * p + 1) * h - H) / (2 * H)).clamp(0, h - 1).to(x.dtype)
        above = place.long()
        below = (above + 1).clamp_max(h - 1)
        mixed = torch.lerp(x[..., above, :], x[..., below, :], (place - above)[:, None])
        return F.interpolate(mixed, (len(p), W), mode="bilinear")

    def cell_means(self, y: Tensor, strip: Strip) -> Tensor:
        """The mean of the points of each cell: rows [B, C, rows, W] of a strip to [B, C, bottom - top, w]."""
        (H, W), (h, w) = self.size, self.low
        if H % h == 0 and W % w == 0:
            return F.avg_pool2d(y, (H // h, W // w))
        for dim, (high, low) in ((-1, (W, w)), (-2, (H, h))):
            i = centres(high, low, self.device)
            if dim == -2:
                i = i[self.rows(strip)] - strip[0]
                low = strip[1] - strip[0]
            shape = list(y.shape)
            shape[dim] = low
            counts = torch.bincount(i, minlength=low).to(y.dtype)
            y = y.new_zeros(shape).index_add(dim, i, y) / (counts[:, None] if dim == -2 else counts)
        return y

    def attend(self, q: Tensor, k: Tensor, v: Tensor, strip: Strip, kernel_size: int, sigma: float) -> Tensor:
        """Rows of `attend` with a Gaussian of nearness: q [B, D, rows, W], k and v of all low-res rows."""
        K, (H, W), (h, w) = kernel_size, self.size, self.low
        columns = self._nearness(W, w, slice(0, W), K, sigma)
        if strip == (0, h):
            bias = self._nearness(H, h, slice(0, H), K, sigma), columns
            return attend(q, k, v, kernel_size=K, border="mask", bias=bias)
        # the windows reach beyond the strip, so that low-res rows are added around it, and high-res rows with them
        wide = max(strip[0] - K // 2, 0), min(strip[1] + K // 2, h)
        inner, outer = self.rows(strip), self.rows(wide)
        before, after = inner.start - outer.start, outer.stop - inner.stop
        q = F.pad(q, (0, 0, before, after))
        k, v = k[..., slice(*wide), :], v[..., slice(*wide), :]
        # where the ratio is not whole, that of the strip differs, and its centres may be a row off: then the window is
        # a row wider on both sides, and what should not be in it is left out
        Kh = K if H % h == 0 else K + 2
        own = centres(outer.stop - outer.start, wide[1] - wide[0], self.device) + wide[0]
        rows = self._nearness(H, h, outer, K, sigma, own, Kh)
        y = attend(q, k, v, kernel_size=(Kh, K), border="mask", bias=(rows, columns))
        return y[..., before : y.shape[-2] - after, :]

    def _nearness(
        self, H: int, h: int, rows: slice, K: int, sigma: float, own: Tensor | None = None, Kh: int | None = None
    ) -> Tensor:
        """Log weight of the Kh points around `own` by their nearness to high-res rows: [rows, Kh]; -inf for those that
        are not among the K around the true centre."""
        p = torch.arange(rows.start, rows.stop, device=self.device)
        c = centres(H, h, self.device)[rows]
        tap = taps(c if own is None else own, Kh or K)
        is_outside = (tap - c[:, None]).abs() > K // 2
        return nearness(p, tap, H, h, sigma).masked_fill(is_outside, -torch.inf)
