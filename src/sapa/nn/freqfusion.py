"""FreqFusion: Frequency-aware Feature Fusion for Dense Image Prediction (Chen et al., TPAMI 2024, arXiv 2408.12879)."""

from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from sapa import checks
from sapa.functional import assemble
from sapa.geometry import Size, keep_format, nearest
from sapa.nn.base import Upsampler
from sapa.nn.carafe import ContentEncoder
from sapa.nn.pointwise import XavierPointConv
from sapa.nn.similarity_sampler import SimilaritySampler

MODES = ("nearest", "bilinear")


class FreqFusion(Upsampler):
    """Upsample the decoder map with low-pass kernels, and sharpen the encoder map with high-pass ones.

    Both kernels are predicted from both maps. `forward` returns the upsampled decoder map; `fuse` returns it together
    with the sharpened guide, to be added or concatenated.

    Args:
        channels: C, of the low-res map x; divisible by `up_group`.
        guide_channels: of the guide, divisible by `up_group`; `channels` if None.
        scale: only the phases of `feature_resample` depend on it; the output has the size of the guide.
        lowpass_kernel: odd K, of the windows of x that are summed.
        highpass_kernel: odd size of the windows of the guide.
        up_group: G, groups of channels with kernels of their own.
        encoder_kernel: odd size of the convolutions that predict the kernels.
        encoder_dilation: of those convolutions.
        compressed_channels: of the maps they read.
        upsample_mode: how x is enlarged without `semi_conv`, "nearest" or "bilinear".
        align_corners: of "bilinear".
        feature_resample: move the points of the output to places that are learned from local similarity.
        feature_resample_group: groups of channels with places of their own.
        feature_resample_norm: GroupNorm before the similarity.
        comp_feat_upsample: filter the compressed maps with first kernels before predicting the final ones.
        use_high_pass: without it `fuse` returns the guide as it is.
        hr_residual: add the guide to its high frequencies.
        semi_conv: predict at both resolutions and add, rather than add and predict at high-res.
        hamming_window: damp the outer taps.

    >>> up = sapa.build("freqfusion", 256, guide_channels=64)
    >>> y = up(x, guide)  # [B, 256, 32, 32], [B, 64, 64, 64] -> [B, 256, 64, 64]
    >>> y, sharp = up.fuse(x, guide)  # and [B, 64, 64, 64]

    Paper: the ALPF generator makes the low-pass kernels, the AHPF generator the high-pass ones, and the offset
    generator is `feature_resample`.
    """

    needs_guide: ClassVar[bool] = True
    hamming_lowpass: Tensor
    hamming_highpass: Tensor

    def __init__(
        self,
        channels: int,
        guide_channels: int | None = None,
        *,
        scale: int | Size = 2,
        lowpass_kernel: int = 5,
        highpass_kernel: int = 3,
        up_group: int = 1,
        encoder_kernel: int = 3,
        encoder_dilation: int = 1,
        compressed_channels: int = 64,
        upsample_mode: str = "nearest",
        align_corners: bool = False,
        feature_resample: bool = False,
        feature_resample_group: int = 4,
        feature_resample_norm: bool = True,
        comp_feat_upsample: bool = True,
        use_high_pass: bool = True,
        hr_residual: bool = True,
        semi_conv: bool = True,
        hamming_window: bool = True,
    ) -> None:
        super().__init__(channels, guide_channels, scale=scale)
        odd = {"lowpass_kernel": lowpass_kernel, "highpass_kernel": highpass_kernel, "encoder_kernel": encoder_kernel}
        checks.positive("FreqFusion", **odd, up_group=up_group, encoder_dilation=encoder_dilation)
        checks.positive("FreqFusion", compressed_channels=compressed_channels)
        checks.one_of("FreqFusion", "upsample_mode", upsample_mode, MODES)
        for name, K in odd.items():
            if K % 2 == 0:
                raise ValueError(f"FreqFusion: {name} must be odd, so that a window has a centre; got {K}.")
        grouped = {"channels": channels, "guide_channels": self.guide_channels}
        for name, C in {**grouped, "compressed_channels": compressed_channels}.items():
            if C % up_group:
                raise ValueError(f"FreqFusion: up_group must divide {name}; got up_group = {up_group}, {name} = {C}.")
        if semi_conv and comp_feat_upsample and not use_high_pass:
            raise ValueError(
                "FreqFusion: comp_feat_upsample filters with the high-pass kernels; use_high_pass=False also needs "
                "comp_feat_upsample=False."
            )
        self.lowpass_kernel, self.highpass_kernel, self.up_group = lowpass_kernel, highpass_kernel, up_group
        self.upsample_mode, self.align_corners = upsample_mode, align_corners
        self.semi_conv, self.comp_feat_upsample, self.hr_residual = semi_conv, comp_feat_upsample, hr_residual
        self.hr_channel_compressor = XavierPointConv(self.guide_channels, compressed_channels)
        self.lr_channel_compressor = XavierPointConv(channels, compressed_channels)

        def encoder(K: int) -> ContentEncoder:
            margin = encoder_kernel // 2 * encoder_dilation
            outputs = up_group * K**2
            return ContentEncoder(compressed_channels, outputs, encoder_kernel, 1, margin, encoder_dilation)

        self.content_encoder = encoder(lowpass_kernel)
        self.content_encoder2 = encoder(highpass_kernel) if use_high_pass else None
        self.dysampler = None
        if feature_resample:
            self.dysampler = SimilaritySampler(
                compressed_channels,
                channels,
                scale=self.scale,
                groups=feature_resample_group,
                kernel_size=encoder_kernel,
                norm=feature_resample_norm,
            )
        for name, K in {"hamming_lowpass": lowpass_kernel, "hamming_highpass": highpass_kernel}.items():
            self.register_buffer(name, torch.empty((1, 1, K, K) if hamming_window else 1))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Write the windows; a single 1 stands for none."""
        for window in (self.hamming_lowpass, self.hamming_highpass):
            row = torch.hamming_window(window.shape[-1], periodic=False, dtype=torch.float64)
            window.copy_(torch.outer(row, row) if window.ndim == 4 else row)

    def upsample(self, x: Tensor, guide: Tensor, size: Size) -> Tensor:
        z, g, _, low = self._filters(x, guide, size)
        return self._enlarge(x, z, g, low, size)

    def fuse(self, x: Tensor, guide: Tensor) -> tuple[Tensor, Tensor]:
        """The upsampled x [B, C, H, W], and the sharpened guide [B, Cg, H, W]."""
        size = self.check(x, guide)
        z, g, high, low = self._filters(x, guide, size)
        y = self._enlarge(x, z, g, low, size)
        if self.content_encoder2 is None:
            return y, guide
        if high is None:
            scores = self._scores(self.content_encoder2, z, g, size)
        else:
            scores = high + assemble(self.content_encoder2(z), low, groups=self.up_group)
        smooth = assemble(guide, self._weights(scores, self.hamming_highpass), groups=self.up_group)
        return y, (2 if self.hr_residual else 1) * guide - smooth

    def _filters(self, x: Tensor, guide: Tensor, size: Size) -> tuple[Tensor, Tensor, Tensor | None, Tensor]:
        """The compressed x and guide, first scores of the high-pass kernels if there are any, the low-pass kernels."""
        z, g = self.lr_channel_compressor(x), self.hr_channel_compressor(guide)
        if self.content_encoder2 is None or not (self.semi_conv and self.comp_feat_upsample):
            scores = self._scores(self.content_encoder, z, g, size)
            return z, g, None, self._weights(scores, self.hamming_lowpass)
        high = self.content_encoder2(g)
        g = 2 * g - assemble(g, self._weights(high, self.hamming_highpass), groups=self.up_group)
        scores = self.content_encoder(g)
        first = self._weights(scores, self.hamming_lowpass)
        scores = scores + assemble(self.content_encoder(z), first, groups=self.up_group)
        return z, g, high, self._weights(scores, self.hamming_lowpass)

    def _scores(self, encoder: ContentEncoder, z: Tensor, g: Tensor, size: Size) -> Tensor:
        if self.semi_conv:
            return encoder(g) + nearest(encoder(z), size)
        return encoder(g + nearest(z, size))

    def _weights(self, scores: Tensor, window: Tensor) -> Tensor:
        # in the exponent, which is equal to windowing the softmax and normalizing again
        return (scores.unflatten(1, (self.up_group, -1)) + window.log().view(-1, 1, 1)).softmax(2).flatten(1, 2)

    def _enlarge(self, x: Tensor, z: Tensor, g: Tensor, low: Tensor, size: Size) -> Tensor:
        v = x
        if not self.semi_conv and self.upsample_mode == "nearest":
            v = keep_format(nearest(x, size), x)
        elif not self.semi_conv:
            v = F.interpolate(x, size, mode=self.upsample_mode, align_corners=self.align_corners)
        y = assemble(v, low, groups=self.up_group)
        return y if self.dysampler is None else self.dysampler(z, g, y)

    def extra_repr(self) -> str:
        options = {"lowpass_kernel": self.lowpass_kernel, "highpass_kernel": self.highpass_kernel}
        return ", ".join([super().extra_repr(), *(f"{name}={value}" for name, value in options.items())])
