"""One map and its guide, ready to be upsampled strip by strip."""

import torch
import torch.nn.functional as F
from torch import Tensor

from sapa.geometry import centres, size_of
from sapa.guided.colours import colours_of, keys
from sapa.guided.grid import Grid, Strip
from sapa.guided.trust import trust

SIGMA_SPACE = 0.6  # deviation of the Gaussian of nearness, in low-res points
LARGE = 4  # ratio above which a window of 3 reaches as far as one should look


class Picture:
    """What all strips share: the grid, the colours of the low-res points, and how far to trust the guide where."""

    def __init__(
        self,
        x: Tensor,
        guide: Tensor,
        is_valid: Tensor | None,
        kernel_size: int | None,
        sigma: float | None,
        memory: int,
    ) -> None:
        (H, W), (h, w) = size_of(guide), size_of(x)
        self.grid = Grid((H, W), (h, w), x.device)
        self.kernel_size = kernel_size or (3 if max(H / h, W / w) > LARGE else 5)
        self.x = x if is_valid is None else x.masked_fill(~is_valid, 0)
        self.guide, self.is_valid = guide, is_valid
        self.strips = list(self.grid.strips(self._rows_within(memory)))
        rows = self.strips[0][1]
        self.colours = colours_of(guide, self.grid, rows, x.dtype)
        self.k = keys(self.colours.low, is_valid)
        if not self.k.isfinite().all():
            raise ValueError(
                "guided_upsample: guide has NaN, infinity, or values whose squares are infinite; fill them first."
            )
        with torch.no_grad():  # the choice of weights is not a part of what is learned
            share, precision = trust(self.x, self.colours.low, is_valid, sigma, self.kernel_size, SIGMA_SPACE)
        self.is_low_empty = None if is_valid is None else _is_empty(is_valid, self.kernel_size)
        # interpolated together
        self.maps = [precision, share, self.x] if is_valid is None else [precision, share, self.x, is_valid.to(x.dtype)]
        self.low = torch.cat(self.maps, 1)

    def upsample(self, strip: Strip) -> Tensor:
        """[B, C, rows, W]"""
        sizes = [m.shape[1] for m in self.maps]
        precision, share, plain, *known = self.grid.bilinear(self.low, strip).split(sizes, 1)
        q = self.colours.queries(self.guide[..., self.grid.rows(strip), :], precision)
        y = self.grid.attend(q, self.k, self.x, strip, self.kernel_size, SIGMA_SPACE)
        for part in known:
            plain = plain / part.clamp_min(torch.finfo(part.dtype).tiny)
            share = share.masked_fill(part == 0, 1)
        return torch.lerp(plain, y, share)

    def in_line(self, y: Tensor) -> Tensor:
        """Add, smoothly, what the means of its cells lack of x."""
        parts = [self.grid.cell_means(y[..., self.grid.rows(strip), :], strip) for strip in self.strips]
        lack = self.x - torch.cat(parts, -2)
        if self.is_valid is not None:
            lack = lack.masked_fill(~self.is_valid, 0)
        y = y.clone() if y.requires_grad else y  # what the means were made of is kept for the gradient
        for strip in self.strips:
            y[..., self.grid.rows(strip), :] += self.grid.bilinear(lack, strip)
        return y

    def is_empty(self, strip: Strip) -> Tensor | None:
        """Whether no point of its window is valid: [B, 1, rows, W]; None if that is so nowhere."""
        if self.is_low_empty is None:
            return None
        rows, columns = (centres(*axis, self.grid.device) for axis in zip(self.grid.size, self.grid.low, strict=True))
        return self.is_low_empty.index_select(-2, rows[self.grid.rows(strip)]).index_select(-1, columns)

    def _rows_within(self, memory: int) -> int:
        """Low-res rows of a strip for which everything at once takes no more than this."""
        (H, W), (h, _), (B, C, _, _) = self.grid.size, self.grid.low, self.x.shape
        # of each point: the guide as floats, its colours, queries with and without the rows around, two maps, three
        # versions of the values
        numbers = 4 * self.guide.shape[1] + 4 + 3 * C
        around = 2 * (self.kernel_size // 2)
        return max(1, memory // (B * W * numbers * self.x.element_size() * -(-H // h)) - around)


def _is_empty(is_valid: Tensor, K: int) -> Tensor | None:
    found = F.max_pool2d(is_valid.float(), K, 1, K // 2) == 0
    return found if found.any() else None
