"""FADE: Fusing the Assets of Decoder and Encoder for Task-Agnostic Upsampling (ECCV 2022, arXiv 2207.10392)."""

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from sapa import checks
from sapa.functional import assemble
from sapa.geometry import Size, keep_format, nearest, size_of
from sapa.nn.base import Upsampler
from sapa.nn.pointwise import XavierPointConv, start_xavier

# the release that convolves the guide with stride 2 ("H2L") computes the same, under other names
H2L_NAMES = {
    "kernel_generator.conv1_en.": "ker_generator.compressor_en.",
    "kernel_generator.conv1_de.": "ker_generator.compressor_de.",
    "kernel_generator.conv2_kernels": "ker_generator.content_encoder.weight",
    "kernel_generator.conv2_bias": "ker_generator.content_encoder.bias",
}


class FADE(Upsampler):
    """Upsample with kernels predicted from guide and low-res map together, and let the guide itself through a gate.

    The scores of a point's K*K weights are a 3x3 convolution around it in the guide plus the same convolution around
    its centre in x, both after a 1x1 convolution of their own. The output is gate * guide + (1 - gate) * the weighted
    sum, where the gate in (0, 1) is learned from x.

    Args:
        channels: C, of the low-res map x.
        guide_channels: of the guide; `channels` if None. If they differ, a 1x1 convolution gives what passes the gate
            C channels, as the authors advise.
        scale: not used; the output has the size of the guide.
        kernel_size: odd K, or (Kh, Kw).
        embed_dim: D, of the maps the 3x3 convolution reads; 64 if None, and K*K in FADE-Lite, which has no choice.
        is_lite: FADE-Lite: the 3x3 convolution treats each channel by itself.
        gate: False gives the weighted sum alone.

    >>> up = sapa.build("fade", 256)
    >>> y = up(x, guide)  # [B, 256, 32, 32], [B, 256, 64, 64] -> [B, 256, 64, 64]
    """

    needs_guide: ClassVar[bool] = True

    def __init__(
        self,
        channels: int,
        guide_channels: int | None = None,
        *,
        scale: int | Size = 2,
        kernel_size: int | Size = 5,
        embed_dim: int | None = None,
        is_lite: bool = False,
        gate: bool = True,
    ) -> None:
        super().__init__(channels, guide_channels, scale=scale)
        self.kernel_size = checks.odd_pair("FADE", kernel_size)
        P = self.kernel_size[0] * self.kernel_size[1]
        D = (P if is_lite else 64) if embed_dim is None else embed_dim
        checks.positive("FADE", embed_dim=D)
        if is_lite and D != P:
            raise ValueError(
                f"FADE: the lite form embeds in K*K = {P} channels, got embed_dim={embed_dim}; leave it out."
            )
        self.gate_generator = Gate(channels) if gate else None
        needs_aligner = gate and self.guide_channels != channels
        self.aligner = XavierPointConv(self.guide_channels, channels) if needs_aligner else nn.Identity()
        self.ker_generator = SemiShift(self.guide_channels, channels, D, P, is_lite)

    def upsample(self, x: Tensor, guide: Tensor, size: Size) -> Tensor:
        y = assemble(x, self.ker_generator(x, guide).softmax(1), kernel_size=self.kernel_size)
        if self.gate_generator is None:
            return y
        gate = nearest(self.gate_generator(x), size).to(y.dtype)  # [B, 1, H, W]
        return keep_format(torch.lerp(y, self.aligner(guide).to(y.dtype), gate), x)

    def kernels(self, x: Tensor, guide: Tensor) -> Tensor:
        """The weights that `forward` applies, to look at them: [B, K*K, H, W]."""
        self.check(x, guide)
        return self.ker_generator(x, guide).softmax(1)

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any, **kwargs: Any) -> None:
        for old, new in H2L_NAMES.items():
            for key in [key for key in state_dict if key.startswith(prefix + old)]:
                state_dict[prefix + new + key.removeprefix(prefix + old)] = state_dict.pop(key)
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, kernel_size={self.kernel_size}"


class SemiShift(nn.Module):
    """Scores of the kernels, from both maps: [B, P, H, W]."""

    def __init__(self, guide_channels: int, channels: int, embed_dim: int, P: int, is_lite: bool) -> None:
        super().__init__()
        self.compressor_en = XavierPointConv(guide_channels, embed_dim)
        self.compressor_de = XavierPointConv(channels, embed_dim, bias=False)
        self.content_encoder = ContentEncoder(embed_dim, P, 3, padding=1, groups=P if is_lite else 1)

    def forward(self, x: Tensor, guide: Tensor) -> Tensor:
        # the bias of the encoder enters with both maps, as in the release
        of_x = self.content_encoder(self.compressor_de(x))
        return self.content_encoder(self.compressor_en(guide)) + nearest(of_x, size_of(guide))


class ContentEncoder(nn.Conv2d):
    def reset_parameters(self) -> None:
        start_xavier(self)


class Gate(nn.Module):
    """How much of the guide a low-res point lets through: [B, C, h, w] to [B, 1, h, w]."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = XavierPointConv(channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        return torch.sigmoid(self.conv(x))
