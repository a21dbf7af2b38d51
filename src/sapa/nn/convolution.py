"""Upsampling convolutions: transposed, and with its channels shuffled into space."""

from typing import ClassVar

from torch import Tensor, nn

from sapa import checks
from sapa.geometry import Size, keep_format, pixel_shuffle
from sapa.nn.base import Upsampler


class Deconv(Upsampler):
    """Transposed convolution: every low-res point adds a learned K*K patch around its place.

    Args:
        channels: C, of the low-res map x.
        guide_channels: of a guide, which only gives the size.
        scale: S, or (S_y, S_x), the stride.
        kernel_size: K, or (Kh, Kw); 3 is what feature upsamplers are compared with. A multiple of S covers all
            points of a cell equally often.
        bias: of the convolution.

    >>> up = sapa.build("deconv", 256)
    >>> y = up(x)  # [B, 256, 32, 32] -> [B, 256, 64, 64]

    Paper: Long et al., Fully Convolutional Networks, CVPR 2015, arXiv 1411.4038.
    """

    any_size: ClassVar[bool] = False

    def __init__(
        self,
        channels: int,
        guide_channels: int | None = None,
        *,
        scale: int | Size = 2,
        kernel_size: int | Size = 3,
        bias: bool = True,
    ) -> None:
        super().__init__(channels, guide_channels, scale=scale)
        window = checks.whole_pair("Deconv", "kernel_size", kernel_size)
        if any(S == 1 and K % 2 == 0 for K, S in zip(window, self.scale, strict=True)):
            raise ValueError(f"Deconv: kernel_size must be odd where scale is 1, got {kernel_size!r}.")
        # what is cut on each side, and added on the far one, so that S*h points are left
        cut = [max(0, (K - S + 1) // 2) for K, S in zip(window, self.scale, strict=True)]
        added = [S + 2 * n - K for K, S, n in zip(window, self.scale, cut, strict=True)]
        self.conv = nn.ConvTranspose2d(
            channels, channels, window, self.scale, (cut[0], cut[1]), (added[0], added[1]), bias=bias
        )

    def upsample(self, x: Tensor, guide: Tensor | None, size: Size) -> Tensor:
        return keep_format(self.conv(x), x)


class PixelShuffle(Upsampler):
    """Convolve to S*S times the channels, and spread them over the points of each cell.

    Args:
        channels: C, of the low-res map x.
        guide_channels: of a guide, which only gives the size.
        scale: S, or (S_y, S_x).
        kernel_size: odd K, or (Kh, Kw); 3 is what feature upsamplers are compared with.
        bias: of the convolution.

    >>> up = sapa.build("pixel_shuffle", 256)
    >>> y = up(x)  # [B, 256, 32, 32] -> [B, 256, 64, 64]

    Paper: Shi et al., Real-Time Single Image and Video Super-Resolution, CVPR 2016, arXiv 1609.05158.
    """

    any_size: ClassVar[bool] = False

    def __init__(
        self,
        channels: int,
        guide_channels: int | None = None,
        *,
        scale: int | Size = 2,
        kernel_size: int | Size = 3,
        bias: bool = True,
    ) -> None:
        super().__init__(channels, guide_channels, scale=scale)
        Kh, Kw = checks.odd_pair("PixelShuffle", kernel_size)
        Sy, Sx = self.scale
        self.conv = nn.Conv2d(channels, channels * Sy * Sx, (Kh, Kw), padding=(Kh // 2, Kw // 2), bias=bias)

    def upsample(self, x: Tensor, guide: Tensor | None, size: Size) -> Tensor:
        return keep_format(pixel_shuffle(self.conv(x), self.scale), x)
