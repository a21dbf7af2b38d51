"""Bilinear additive upsampling: The Devil is in the Decoder (Wojna et al., IJCV 2019, arXiv 1707.05847)."""

import torch.nn.functional as F
from torch import Tensor, nn

from sapa import checks
from sapa.geometry import Size, keep_format
from sapa.nn.base import Upsampler


class BilinearAdditive(Upsampler):
    """Interpolate bilinearly, add up every N neighbouring channels, and convolve.

    At scale 2 the sums over N = 4 channels hold as many numbers as x. The paper goes on with these C/N channels; here
    the convolution that follows brings them back to C, and the residual connection hands each sum to the N channels it
    was made of, so that learned kernels refine an interpolation.

    Args:
        channels: C, of the low-res map x; divisible by `group`.
        guide_channels: of a guide, which only gives the size.
        scale: S, or (S_y, S_x).
        group: N.
        kernel_size: odd K, or (Kh, Kw), of the convolution.
        is_residual: whether the interpolation is added to what the convolution makes of it.
        bias: of the convolution.

    >>> up = sapa.build("bilinear_additive", 256)
    >>> y = up(x)  # [B, 256, 32, 32] -> [B, 256, 64, 64]
    """

    def __init__(
        self,
        channels: int,
        guide_channels: int | None = None,
        *,
        scale: int | Size = 2,
        group: int = 4,
        kernel_size: int | Size = 3,
        is_residual: bool = True,
        bias: bool = True,
    ) -> None:
        super().__init__(channels, guide_channels, scale=scale)
        checks.positive("BilinearAdditive", group=group)
        if channels % group:
            raise ValueError(
                f"BilinearAdditive: group must divide channels; got group = {group} and channels = {channels}."
            )
        Kh, Kw = checks.odd_pair("BilinearAdditive", kernel_size)
        self.group, self.is_residual = group, is_residual
        self.conv = nn.Conv2d(channels // group, channels, (Kh, Kw), padding=(Kh // 2, Kw // 2), bias=bias)

    def additive(self, x: Tensor, size: Size) -> Tensor:
        """The part without parameters: [B, C, h, w] to [B, C/N, H, W]."""
        # adding before enlarging is equal, and N times cheaper
        return F.interpolate(x.unflatten(1, (-1, self.group)).sum(2), size, mode="bilinear", align_corners=False)

    def upsample(self, x: Tensor, guide: Tensor | None, size: Size) -> Tensor:
        sums = self.additive(x, size)
        y = self.conv(sums)
        if self.is_residual:
            y = y + sums.to(y.dtype).repeat_interleave(self.group, 1)
        return keep_format(y, x)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, group={self.group}, is_residual={self.is_residual}"
