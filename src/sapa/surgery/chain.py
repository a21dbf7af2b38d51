"""What stands in the place of a call: one or more upsamplers."""

from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from sapa.geometry import Size, size_of
from sapa.nn import Upsampler
from sapa.ops import is_autocast


class Chain(nn.Module):
    """One or more upsamplers in a row, after a 1x1 convolution where the operator replaced changes the channels."""

    def __init__(self, channels: int, out_channels: int, steps: list[Upsampler]) -> None:
        super().__init__()
        self.project = nn.Identity() if channels == out_channels else nn.Conv2d(channels, out_channels, 1)
        self.steps = nn.ModuleList(steps)

    def forward(self, x: Tensor, guides: list[Tensor], size: Size) -> Tensor:
        y = self.project(x)
        if not guides:
            return alone(self.steps[0], y, size).to(x.dtype)
        for i, (up, guide) in enumerate(zip(self.steps, guides, strict=True)):
            y = up(y, fitted(guide, y, size if i == len(guides) - 1 else size_of(guide)))
        return y.to(x.dtype)


def fitted(guide: Tensor, x: Tensor, size: Size) -> Tensor:
    """The guide in this size, or that of x where it is larger."""
    size = (max(size[0], x.shape[2]), max(size[1], x.shape[3]))
    if size_of(guide) != size:
        guide = F.interpolate(guide, size, mode="bilinear", align_corners=False)
    return guide if is_autocast(x.device.type) else guide.to(x.dtype)


def alone(up: Any, x: Tensor, size: Size) -> Tensor:
    """Without a guide, whose size would be the one asked for."""
    if up.any_size:
        up.check(x, None)
        return up.upsample(x, None, size)
    y = up(x)
    return y if size_of(y) == size else F.interpolate(y, size, mode="bilinear", align_corners=False)
