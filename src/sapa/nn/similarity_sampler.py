"""The offset generator of FreqFusion: moves each point of a map to where its surroundings are more alike."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sapa.functional import kernels
from sapa.geometry import Size, centres, keep_format, nearest, pixel_shuffle, size_of
from sapa.nn.pointwise import start_xavier

# the eight neighbours at a distance of two points, in a window of 5x5
NEIGHBOURS = [0, 2, 4, 10, 14, 20, 22, 24]


class SimilaritySampler(nn.Module):
    """Sample a high-res map at its own places plus offsets, learned from how alike neighbours are.

    Args:
        compressed_channels: of the two maps that are looked at; divisible by `groups`.
        channels: of the map that is sampled; divisible by `groups`.
        scale: the offsets from the low-res map are predicted for this many points in a cell.
        groups: G, groups of channels with offsets of their own.
        kernel_size: of the convolutions.
        norm: GroupNorm of groups of 8 channels before the similarity.
    """

    init_pos: Tensor

    def __init__(
        self, compressed_channels: int, channels: int, *, scale: Size, groups: int, kernel_size: int, norm: bool
    ) -> None:
        super().__init__()
        for name, C in {"compressed_channels": compressed_channels, "channels": channels}.items():
            if C % groups:
                raise ValueError(
                    f"FreqFusion: feature_resample_group must divide {name}; got feature_resample_group = {groups} and "
                    f"{name} = {C}."
                )
        eighth = compressed_channels // 8
        if norm and (eighth == 0 or compressed_channels % eighth):
            raise ValueError(
                f"FreqFusion: feature_resample_norm splits compressed_channels by 8 and cannot split "
                f"{compressed_channels}; the nearest that works is {max(8, 8 * round(compressed_channels / 8))}, "
                f"or use feature_resample_norm=False."
            )
        self.scale, self.groups = scale, groups
        inputs, phases = compressed_channels + len(NEIGHBOURS), scale[0] * scale[1]

        def conv(outputs: int) -> XavierConv:
            return XavierConv(inputs, outputs, kernel_size, padding=kernel_size // 2)

        self.offset, self.direct_scale = conv(2 * groups * phases), conv(2 * groups * phases)
        self.hr_offset, self.hr_direct_scale = conv(2 * groups), conv(2 * groups)
        self.norm_hr, self.norm_lr = (
            nn.GroupNorm(eighth, compressed_channels) if norm else nn.Identity() for _ in range(2)
        )
        self.register_buffer("init_pos", torch.empty(1, 2 * groups * phases, 1, 1))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Write where the points of a cell lie from its middle, in low-res points: [x or y, G, S_y, S_x]."""
        y, x = ((torch.arange(S, dtype=torch.float64) + 0.5) / S - 0.5 for S in self.scale)
        places = torch.stack(torch.broadcast_tensors(x, y[:, None]))  # [2, S_y, S_x]
        self.init_pos.copy_(places.repeat_interleave(self.groups, 0).view(self.init_pos.shape))

    def forward(self, z: Tensor, g: Tensor, y: Tensor) -> Tensor:
        """From compressed maps z [B, D, h, w] and g [B, D, H, W], sample y [B, C, H, W]."""
        z, g = (torch.cat([t, similarity(t)], 1) for t in (self.norm_lr(z), self.norm_hr(g)))
        # a place in a large map does not fit a half type
        wide = torch.promote_types(y.dtype, torch.float32)
        offset = self._spread(self.offset(z), g).to(wide) + self.hr_offset(g)
        scope = self._spread(self.direct_scale(z), g).to(wide) + self.hr_direct_scale(g)
        place = self._places(offset * scope.sigmoid(), size_of(z)).unflatten(1, (2, self.groups))
        grid = place.permute(0, 2, 3, 4, 1).flatten(0, 1)  # [B*G, H, W, 2]
        v = y.to(wide).unflatten(1, (self.groups, -1)).flatten(0, 1)  # [B*G, C/G, H, W]
        out = F.grid_sample(v, grid, mode="bilinear", padding_mode="border", align_corners=False)
        return keep_format(out.unflatten(0, (-1, self.groups)).flatten(1, 2).to(y.dtype), y)

    def _spread(self, t: Tensor, g: Tensor) -> Tensor:
        return nearest(pixel_shuffle(t, self.scale), size_of(g))

    def _places(self, offset: Tensor, low: Size) -> Tensor:
        """Where each point looks, from -1 to 1 over the image as grid_sample has it: [B, 2*G, H, W]."""
        axes = list(zip(size_of(offset), low, self.scale, strict=True))
        rows, columns = (centres(H, S * h, offset.device) for H, h, S in axes)
        Sy, Sx = self.scale
        start = pixel_shuffle(self.init_pos.to(offset.dtype), self.scale)[..., (rows % Sy)[:, None], columns % Sx]
        cell = torch.stack(torch.broadcast_tensors(columns // Sx, (rows // Sy)[:, None])) + 0.5  # [2, H, W]
        extent = torch.tensor([low[1], low[0]], device=offset.device)[:, None, None]
        place = offset + start + cell.repeat_interleave(self.groups, 0)
        return place * 2 / extent.repeat_interleave(self.groups, 0) - 1


class XavierConv(nn.Conv2d):
    """FreqFusion overwrites the small first offsets of its sampler with those of its other layers."""

    def reset_parameters(self) -> None:
        start_xavier(self)


def similarity(x: Tensor) -> Tensor:
    """The cosine of each point and eight neighbours: [B, D, H, W] to [B, 8, H, W]."""
    x = F.normalize(x, dim=1, eps=1e-8)
    return kernels(x, x, kernel_size=5, normalize="none")[:, NEIGHBOURS]
