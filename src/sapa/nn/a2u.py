"""A2U: Learning Affinity-Aware Upsampling for Deep Image Matting (Dai et al., CVPR 2021, arXiv 2011.14288)."""

from math import gcd
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sapa import checks
from sapa.functional import assemble
from sapa.geometry import Size, fill_cells, keep_format, size_of, spread_cells
from sapa.nn.base import Upsampler

GROUPS = 32


class A2U(Upsampler):
    """Upsample with kernels from the affinity of two filtered versions of the encoder map.

    Two filters, predicted from the whole map, give each cell two vectors; their inner product is the affinity of the
    cell. Times a pattern, also predicted from the whole map, it becomes the scores of the cell's K*K windows. `pool` is
    the way down that belongs to it: a pattern of its own weighs the S_y*K by S_x*K points around each cell.

    Args:
        channels: C, of the low-res map x; divisible by `downupsample_group`.
        guide_channels: of the guide; `channels` if None. Its GroupNorms have 32 groups, or as many of them as fit.
        scale: the size of a cell; the output has the size of the guide.
        up_kernel_size: odd K, of the windows that are summed.
        encode_kernel_size: of the two filters.
        share: one filter for all channels, rather than one for each.
        downupsample_group: G, groups of channels with kernels of their own.
        with_pool: make `pool` too. A state dict of the release holds its parameters; without it they are passed over.

    >>> up = sapa.build("a2u", 256, guide_channels=64, with_pool=True)
    >>> down = up.pool(guide)  # [B, 64, 64, 64] -> [B, 64, 32, 32]
    >>> y = up(x, guide)  # [B, 256, 32, 32], [B, 64, 64, 64] -> [B, 256, 64, 64]

    Paper: Fig. 2, with rank d = 1.
    """

    needs_guide: ClassVar[bool] = True

    def __init__(
        self,
        channels: int,
        guide_channels: int | None = None,
        *,
        scale: int | Size = 2,
        up_kernel_size: int = 3,
        encode_kernel_size: int = 6,
        share: bool = True,
        downupsample_group: int = 1,
        with_pool: bool = False,
    ) -> None:
        super().__init__(channels, guide_channels, scale=scale)
        checks.positive("A2U", up_kernel_size=up_kernel_size, encode_kernel_size=encode_kernel_size)
        checks.positive("A2U", downupsample_group=downupsample_group)
        if up_kernel_size % 2 == 0:
            raise ValueError(f"A2U: up_kernel_size must be odd, so that a window has a centre; got {up_kernel_size}.")
        self.kernel_size, self.encode_kernel_size = up_kernel_size, encode_kernel_size
        self.groups = downupsample_group
        pooled = {"guide_channels": self.guide_channels} if with_pool else {}
        for name, C in {"channels": channels, **pooled}.items():
            if C % downupsample_group:
                raise ValueError(
                    f"A2U: downupsample_group must divide {name}; got downupsample_group = {downupsample_group} and "
                    f"{name} = {C}."
                )
        C = self.guide_channels
        scores = downupsample_group * self.kernel_size**2 * self.scale[0] * self.scale[1]
        self.bnu, self.bnv = (nn.Sequential(nn.GroupNorm(gcd(GROUPS, C), C), nn.LeakyReLU()) for _ in range(2))
        self.bconv_UP = _predict(C, scores, 1)
        self.bconv_DP = _predict(C, scores, 1) if with_pool else None
        self.bconv_U, self.bconv_V = (_predict(C, 1 if share else C, encode_kernel_size) for _ in range(2))

    def upsample(self, x: Tensor, guide: Tensor, size: Size) -> Tensor:
        return assemble(x, self._weights(guide), groups=self.groups)

    def kernels(self, x: Tensor, guide: Tensor) -> Tensor:
        """The weights that `forward` applies, to look at them: [B, G*K*K, H, W]."""
        self.check(x, guide)
        return self._weights(guide)

    def pool(self, guide: Tensor) -> Tensor:
        """Sum the guide around each cell: [B, Cg, H, W] to [B, Cg, ceil(H / S_y), ceil(W / S_x)]."""
        checks.bind("A2U.pool", guide=(guide, "B Cg H W"))
        self._expects("guide", self.guide_channels, guide, "B Cg H W")
        if self.bconv_DP is None:
            raise ValueError("A2U.pool: this A2U only goes up; build it with with_pool=True.")
        w = self._over_taps(self.bconv_DP(guide) * self._affinity(guide))
        low, K, (Sy, Sx) = size_of(w), self.kernel_size, self.scale
        v, w = fill_cells(guide, self.scale), w.unflatten(1, (self.groups, K, Sy, K, Sx))
        # an even window with a stride is, for each place in a cell, an odd window over the points at that place
        phases = [(v[..., a::Sy, b::Sx], w[:, :, :, a, :, b]) for a in range(Sy) for b in range(Sx)]
        y = [assemble(v[..., : low[0], : low[1]], w.flatten(1, 3), groups=self.groups) for v, w in phases]
        return keep_format(sum(y[1:], y[0]), guide)

    def _weights(self, guide: Tensor) -> Tensor:
        scores = spread_cells(self.bconv_UP(guide) * self._affinity(guide), self.scale, size_of(guide)).sigmoid()
        return self._over_taps(scores) if self.kernel_size > 1 else scores

    def _affinity(self, guide: Tensor) -> Tensor:
        """Of each cell: [B, 1, h, w]."""
        u = self.bnu(self._filter(guide, self.bconv_U(guide)))
        v = self.bnv(self._filter(guide, self.bconv_V(guide)))
        return (u * v).sum(1, keepdim=True) / self.guide_channels**0.5

    def _filter(self, guide: Tensor, filters: Tensor) -> Tensor:
        """Convolve each sample with its own filters [B, 1 or C, k, k], by strides of a cell: [B, C, h, w]."""
        (B, C, _, _), k = guide.shape, self.encode_kernel_size
        if B == 0:  # a convolution has at least one group
            return guide[..., :: self.scale[0], :: self.scale[1]]
        before, after = (k - 1) // 2, k // 2
        padded = F.pad(guide, (before, after, before, after))
        if torch.onnx.is_in_onnx_export():  # whose convolutions have a fixed number of groups, and so of samples
            windows = padded.unfold(2, k, self.scale[0]).unfold(3, k, self.scale[1])  # [B, C, h, w, k, k]
            return torch.einsum("bchwij,bcij->bchw", windows, filters.expand(B, C, k, k))
        padded = padded.flatten(0, 1).unsqueeze(0)
        kernels = filters.expand(B, C, k, k).flatten(0, 1).unsqueeze(1)
        return F.conv2d(padded, kernels, stride=self.scale, groups=B * C).unflatten(1, (B, C)).squeeze(0)

    def _over_taps(self, scores: Tensor) -> Tensor:
        # the release sorts scores by taps here, and by groups in the sum: for G > 1 other weights than one would expect
        return scores.unflatten(1, (-1, self.groups)).softmax(1).flatten(1, 2)

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any, **kwargs: Any) -> None:
        if self.bconv_DP is None:
            for key in [key for key in state_dict if key.startswith(f"{prefix}bconv_DP.")]:
                del state_dict[key]
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)

    def extra_repr(self) -> str:
        options = {"up_kernel_size": self.kernel_size, "encode_kernel_size": self.encode_kernel_size}
        return ", ".join([super().extra_repr(), *(f"{name}={value}" for name, value in options.items())])


def _predict(channels: int, outputs: int, size: int) -> nn.Sequential:
    """From the mean over the map, or over each of size*size parts of it."""
    return nn.Sequential(nn.AdaptiveAvgPool2d((size, size)), nn.Conv2d(channels, outputs, 1))
