"""CARAFE: Content-Aware ReAssembly of FEatures (Wang et al., ICCV 2019, arXiv 1905.02188)."""

from typing import ClassVar

from torch import Tensor, nn

from sapa import checks
from sapa.functional import assemble
from sapa.geometry import Size, pixel_shuffle
from sapa.nn.base import Upsampler
from sapa.nn.pointwise import XavierPointConv


class CARAFE(Upsampler):
    """Upsample with kernels predicted from the low-res map itself.

    Each low-res point predicts, from its neighbourhood, the K*K weights of every high-res point in its cell. Training
    starts near a K*K box.

    Args:
        channels: C, of the low-res map x; divisible by `up_group`.
        guide_channels: of the guide, which gives its size alone; `channels` if None.
        scale: S, or (S_y, S_x).
        up_kernel: odd K, of the windows that are summed.
        up_group: G, groups of channels with kernels of their own.
        encoder_kernel: odd size of the convolution that predicts the kernels.
        encoder_dilation: of that convolution.
        compressed_channels: of the map it reads.

    >>> up = sapa.build("carafe", 256)
    >>> y = up(x)  # [B, 256, 32, 32] -> [B, 256, 64, 64]
    """

    any_size: ClassVar[bool] = False

    def __init__(
        self,
        channels: int,
        guide_channels: int | None = None,
        *,
        scale: int | Size = 2,
        up_kernel: int = 5,
        up_group: int = 1,
        encoder_kernel: int = 3,
        encoder_dilation: int = 1,
        compressed_channels: int = 64,
    ) -> None:
        super().__init__(channels, guide_channels, scale=scale)
        checks.positive("CARAFE", up_kernel=up_kernel, up_group=up_group, encoder_kernel=encoder_kernel)
        checks.positive("CARAFE", encoder_dilation=encoder_dilation, compressed_channels=compressed_channels)
        for name, K in {"up_kernel": up_kernel, "encoder_kernel": encoder_kernel}.items():
            if K % 2 == 0:
                raise ValueError(f"CARAFE: {name} must be odd, so that a window has a centre; got {K}.")
        if channels % up_group:
            raise ValueError(
                f"CARAFE: up_group must divide channels; got up_group = {up_group} and channels = {channels}."
            )
        self.up_kernel, self.up_group = up_kernel, up_group
        self.channel_compressor = XavierPointConv(channels, compressed_channels)
        self.content_encoder = ContentEncoder(
            compressed_channels,
            up_group * up_kernel**2 * self.scale[0] * self.scale[1],
            encoder_kernel,
            padding=encoder_kernel // 2 * encoder_dilation,
            dilation=encoder_dilation,
        )

    def upsample(self, x: Tensor, guide: Tensor | None, size: Size) -> Tensor:
        return assemble(x, self._weights(x), kernel_size=self.up_kernel, groups=self.up_group)

    def kernels(self, x: Tensor, guide: Tensor | None = None) -> Tensor:
        """The weights that `forward` applies, to look at them: [B, G*K*K, S_y*h, S_x*w]."""
        self.check(x, guide)
        return self._weights(x)

    def _weights(self, x: Tensor) -> Tensor:
        scores = pixel_shuffle(self.content_encoder(self.channel_compressor(x)), self.scale)  # [B, G*P, H, W]
        return scores.unflatten(1, (self.up_group, -1)).softmax(2).flatten(1, 2)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, up_kernel={self.up_kernel}, up_group={self.up_group}"


class ContentEncoder(nn.Conv2d):
    """Predicts scores so small at first that every kernel starts as a box."""

    def reset_parameters(self) -> None:
        nn.init.normal_(self.weight, std=0.001)
        if self.bias is not None:
            nn.init.zeros_(self.bias)
