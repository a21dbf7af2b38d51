"""Max unpooling: SegNet (Badrinarayanan et al., TPAMI 2017, arXiv 1511.00561)."""

from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from sapa import checks
from sapa.geometry import Size, keep_format, size_of
from sapa.nn.base import Upsampler


class MaxUnpool(Upsampler):
    """Put each low-res value where its cell of the guide is largest, and 0 everywhere else.

    The guide is the map that max pooling made smaller in the encoder; its cells have S_y*S_x points, and those at the
    bottom and on the right may be cut. Where the encoder keeps the indices that
    `F.max_pool2d(guide, S, return_indices=True)` returns, they can be passed in place of the guide; the output is then
    S times as large as x, as was the map they index.

    Args:
        channels: C, of the low-res map x.
        guide_channels: must be C, since every channel has places of its own.
        scale: S, or (S_y, S_x), of the pooling.

    >>> up = sapa.build("max_unpool", 64)
    >>> y = up(x, guide)  # [B, 64, 16, 16], [B, 64, 32, 32] -> [B, 64, 32, 32]
    """

    needs_guide: ClassVar[bool] = True
    any_size: ClassVar[bool] = False

    def __init__(self, channels: int, guide_channels: int | None = None, *, scale: int | Size = 2) -> None:
        super().__init__(channels, guide_channels, scale=scale)
        if self.guide_channels != channels:
            raise ValueError(
                f"MaxUnpool: x and guide must have the same channels, since the guide says for each of them where its "
                f"values go; got {channels} and {self.guide_channels}. With others: sapa_b, sapa_g."
            )

    def check(self, x: Tensor, guide: Tensor | None) -> Size:
        if not isinstance(guide, Tensor) or guide.is_floating_point():
            return super().check(x, guide)
        if guide.dtype != torch.int64 or guide.shape != x.shape:
            raise ValueError(
                f"MaxUnpool: indices in place of the guide must be int64 and have the shape of x, "
                f"{list(x.shape)} (B C h w); got {checks.plain(guide.dtype)}, {list(guide.shape)}."
            )
        pooled = x.new_empty(()).expand(*x.shape[:2], self.scale[0] * x.shape[2], self.scale[1] * x.shape[3])
        return super().check(x, pooled)

    def upsample(self, x: Tensor, guide: Tensor, size: Size) -> Tensor:
        if guide.is_floating_point():
            size = size_of(guide)
            _, guide = F.max_pool2d(guide.detach(), self.scale, ceil_mode=True, return_indices=True)
        H, W = size
        zeros = x.new_zeros(x.shape[0], x.shape[1], H * W)
        # not F.max_unpool2d, which has no deterministic form
        return keep_format(zeros.scatter(2, guide.flatten(2), x.flatten(2)).unflatten(2, (H, W)), x)
