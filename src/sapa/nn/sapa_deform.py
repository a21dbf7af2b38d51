"""SAPA-D, the deformable extension of SAPA (On Point Affiliation in Feature Upsampling, arXiv 2307.08198)."""

from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from sapa import checks
from sapa.geometry import Size, centres, keep_format, nearest, size_of
from sapa.nn.base import Upsampler
from sapa.nn.pointwise import PointConv, make_norm

NORMS = ("none", "group")


class SAPADeform(Upsampler):
    """Upsample by similarity to a few low-res points whose places are learned.

    Each group of channels has its own points, given as offsets from the centre of the high-res point, and samples
    keys and values there bilinearly. Outside the image both are 0, and such a point stays in the softmax.

    Args:
        channels: C, of the low-res map x; divisible by `groups`.
        guide_channels: of the guide; `channels` if None.
        scale: the offsets are predicted for this many points in a cell; the output has the size of the guide.
        points: number of points of each group.
        groups: G.
        embed_dim: D, of queries and keys in each group.
        norm: "none", or "group" of 32 channel groups.
        is_high_res: predict one offset for each high-res point rather than for each low-res one.
        bias: of the projections.
    """

    needs_guide: ClassVar[bool] = True

    def __init__(
        self,
        channels: int,
        guide_channels: int | None = None,
        *,
        scale: int | Size = 2,
        points: int = 9,
        groups: int = 4,
        embed_dim: int = 32,
        norm: str = "none",
        is_high_res: bool = True,
        bias: bool = True,
    ) -> None:
        super().__init__(channels, guide_channels, scale=scale)
        checks.positive("SAPADeform", points=points, groups=groups, embed_dim=embed_dim)
        checks.one_of("SAPADeform", "norm", norm, NORMS)
        if channels % groups:
            raise ValueError(
                f"SAPADeform: groups must divide channels; got groups = {groups} and channels = {channels}."
            )
        self.points, self.groups, self.phases = points, groups, self.scale if is_high_res else (1, 1)
        self.norm_y = make_norm("SAPADeform", norm, self.guide_channels)
        self.norm_x = make_norm("SAPADeform", norm, channels)
        self.q = PointConv(self.guide_channels, groups * embed_dim, bias)
        self.k = PointConv(channels, groups * embed_dim, bias)
        self.offset = PointConv(channels, groups * points * 2 * self.phases[0] * self.phases[1])

    def upsample(self, x: Tensor, guide: Tensor, size: Size) -> Tensor:
        x_hat = self.norm_x(x)
        query = self.q(self.norm_y(guide))
        q, k, v = (self._split(t) for t in (query, self.k(x_hat), x))  # [B*G, D or C/G, ...]
        places = self._places(x_hat, size)
        scores = torch.stack([(q * _sample(k, place)).sum(1) for place in places], 1)
        w = scores.softmax(1)  # [B*G, n, H, W]
        y = torch.zeros_like(_sample(v, places[0]))
        for w_n, place in zip(w.unbind(1), places, strict=True):
            y = torch.addcmul(y, w_n.unsqueeze(1), _sample(v, place))
        return keep_format(y.unflatten(0, (-1, self.groups)).flatten(1, 2).to(query.dtype), x)

    def _places(self, x_hat: Tensor, size: Size) -> tuple[Tensor, ...]:
        """Where each point looks, (x, y) from -1 to 1 over the image as grid_sample has it: n times [B*G, H, W, 2]."""
        (h, w), (Sy, Sx) = size_of(x_hat), self.phases
        offset = self.offset(x_hat).to(_wide(x_hat)).unflatten(1, (-1, Sy, Sx))
        offset = offset.permute(0, 1, 4, 2, 5, 3).flatten(2, 3).flatten(3, 4)  # [B, G*n*2, Sy*h, Sx*w]
        offset = nearest(offset, size).unflatten(1, (self.groups, self.points, 2)).flatten(0, 1)
        y, x = (centres(high, low, offset.device) for high, low in zip(size, (h, w), strict=True))
        centre = torch.stack(torch.broadcast_tensors(x, y[:, None])) + 0.5  # [2, H, W]
        extent = torch.tensor([w, h], device=offset.device)
        return ((offset + centre).permute(0, 1, 3, 4, 2) * 2 / extent - 1).unbind(1)

    def _split(self, x: Tensor) -> Tensor:
        return x.to(_wide(x)).unflatten(1, (self.groups, -1)).flatten(0, 1)


def _sample(x: Tensor, place: Tensor) -> Tensor:
    return F.grid_sample(x, place, mode="bilinear", padding_mode="zeros", align_corners=False)


def _wide(x: Tensor) -> torch.dtype:
    # a place in a large map does not fit a half type
    return torch.promote_types(x.dtype, torch.float32)
