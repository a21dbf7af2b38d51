"""Upsamplers by position alone: nearest, bilinear and bicubic."""

import torch.nn.functional as F
from torch import Tensor

from sapa.geometry import Size, keep_format, nearest
from sapa.nn.base import Upsampler


class Nearest(Upsampler):
    """Repeat each low-res point over the high-res points it is the centre of."""

    def upsample(self, x: Tensor, guide: Tensor | None, size: Size) -> Tensor:
        return keep_format(nearest(x, size), x)


class Bilinear(Upsampler):
    """Interpolate linearly between pixel centres (align_corners=False)."""

    def upsample(self, x: Tensor, guide: Tensor | None, size: Size) -> Tensor:
        return F.interpolate(x, size, mode="bilinear", align_corners=False)


class Bicubic(Upsampler):
    """Interpolate by cubic convolution (Keys, a = -3/4) between pixel centres (align_corners=False)."""

    def upsample(self, x: Tensor, guide: Tensor | None, size: Size) -> Tensor:
        return keep_format(F.interpolate(x, size, mode="bicubic", align_corners=False), x)
