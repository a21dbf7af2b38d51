"""Layers that treat every point of a map alike, under the parameter names and shapes of the official releases."""

import torch.nn.functional as F
from torch import Tensor, nn

GROUPS = 32


class PointNorm(nn.LayerNorm):
    """LayerNorm over the channels of each point: [B, C, H, W]."""

    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class PointLinear(nn.Linear):
    """A 1x1 convolution whose weight is [D, C], as in the first release."""

    def forward(self, input: Tensor) -> Tensor:
        return F.conv2d(input, self.weight[:, :, None, None], self.bias)


def make_norm(owner: str, name: str, channels: int, *, affine: bool = True) -> nn.Module:
    """The norm called "layer", "group" or "none" for a map of this many channels."""
    if name == "layer":
        return PointNorm(channels, elementwise_affine=affine)
    if name == "none":
        return nn.Identity()
    if channels % GROUPS:
        raise ValueError(
            f"{owner}: norm='group' has {GROUPS} groups and cannot split {channels} channels; the nearest that works "
            f"is {max(GROUPS, round(channels / GROUPS) * GROUPS)}, or use norm='layer'."
        )
    return nn.GroupNorm(GROUPS, channels, affine=affine)
