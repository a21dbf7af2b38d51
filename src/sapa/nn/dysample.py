"""DySample: Learning to Upsample by Learning to Sample (Liu et al., ICCV 2023, arXiv 2308.15085)."""

from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sapa import checks
from sapa.geometry import Size, centres, keep_format, pixel_shuffle, size_of
from sapa.nn.base import Upsampler
from sapa.nn.pointwise import PointConv

STYLES = ("lp", "pl")


class DySample(Upsampler):
    """Upsample by sampling the low-res map bilinearly, at places that are learned.

    Each high-res point looks at its own place plus an offset; with no offset this is bilinear interpolation. Places
    outside the image take the nearest value inside. The paper's names:

    - DySample: style "lp"; a linear layer makes the offsets of a whole cell, which are then shuffled to high-res.
    - DySample-S: style "pl" and 8 groups; x is shuffled to high-res first, and the layer is (S_y*S_x)² times smaller.
    - DySample+ and DySample-S+: the same with a dynamic scope.

    Args:
        channels: C, of the low-res map x; divisible by `groups`, and for "pl" by S_y*S_x.
        guide_channels: of the guide, which gives its size alone; `channels` if None.
        scale: S, or (S_y, S_x).
        style: "lp" or "pl".
        groups: G, groups of channels with offsets of their own.
        dyscope: scale the offsets by a learned factor between 0 and 0.5 at each point, rather than by 0.25.

    >>> up = sapa.build("dysample", 256)
    >>> y = up(x)  # [B, 256, 32, 32] -> [B, 256, 64, 64]
    """

    any_size: ClassVar[bool] = False
    init_pos: Tensor

    def __init__(
        self,
        channels: int,
        guide_channels: int | None = None,
        *,
        scale: int | Size = 2,
        style: str = "lp",
        groups: int = 4,
        dyscope: bool = False,
    ) -> None:
        super().__init__(channels, guide_channels, scale=scale)
        checks.positive("DySample", groups=groups)
        checks.one_of("DySample", "style", style, STYLES)
        phases = self.scale[0] * self.scale[1]
        if channels % groups:
            raise ValueError(f"DySample: groups must divide channels; got groups = {groups} and channels = {channels}.")
        if style == "pl" and channels % phases:
            raise ValueError(
                f"DySample: style='pl' spreads the channels over {self.scale[0]}x{self.scale[1]} points, so channels "
                f"must be divisible by {phases}, got {channels}. Use style='lp', or another scale."
            )
        self.style, self.groups = style, groups
        inputs, outputs = (channels, 2 * groups * phases) if style == "lp" else (channels // phases, 2 * groups)
        self.offset = Offset(inputs, outputs)
        self.scope = Scope(inputs, outputs, bias=False) if dyscope else None
        self.register_buffer("init_pos", torch.empty(1, 2 * groups * phases, 1, 1))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Write where the points of a cell lie from its middle, in low-res points: [x or y, G, S_y, S_x]."""
        y, x = ((torch.arange(S, dtype=torch.float64) + 0.5) / S - 0.5 for S in self.scale)
        places = torch.stack(torch.broadcast_tensors(x, y[:, None]))  # [2, S_y, S_x]
        self.init_pos.copy_(places.repeat_interleave(self.groups, 0).view(self.init_pos.shape))

    def upsample(self, x: Tensor, guide: Tensor | None, size: Size) -> Tensor:
        offset = self._offset(x)
        # a place in a large map does not fit a half type
        wide = torch.promote_types(x.dtype, torch.float32)
        grid = self._places(offset.to(wide), size_of(x)).flatten(0, 1)  # [B*G, H, W, 2]
        v = x.to(wide).unflatten(1, (self.groups, -1)).flatten(0, 1)  # [B*G, C/G, h, w]
        y = F.grid_sample(v, grid, mode="bilinear", padding_mode="border", align_corners=False)
        return keep_format(y.unflatten(0, (-1, self.groups)).flatten(1, 2).to(offset.dtype), x)

    def _offset(self, x: Tensor) -> Tensor:
        """In low-res points, all x and then all y: [B, 2*G, H, W]."""
        if self.style == "pl":
            x = pixel_shuffle(x, self.scale)
        offset = self.offset(x) * (0.25 if self.scope is None else 0.5 * torch.sigmoid(self.scope(x)))
        return pixel_shuffle(offset, self.scale) if self.style == "lp" else offset

    def _places(self, offset: Tensor, low: Size) -> Tensor:
        """Where each point looks, (x, y) from -1 to 1 over the image as grid_sample has it: [B, G, H, W, 2]."""
        y, x = (centres(H, h, offset.device) for H, h in zip(size_of(offset), low, strict=True))
        cell = torch.stack(torch.broadcast_tensors(x, y[:, None]), -1) + 0.5  # [H, W, 2]
        in_cell = pixel_shuffle(self.init_pos.to(offset.dtype), self.scale).repeat(1, 1, *low)
        moved = (offset + in_cell).unflatten(1, (2, self.groups)).permute(0, 2, 3, 4, 1)
        return (moved + cell) * 2 / torch.tensor([low[1], low[0]], device=offset.device) - 1

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any, **kwargs: Any) -> None:
        # scope had a bias in the checkpoints of 2023, and has none since
        if self.scope is not None and f"{prefix}scope.weight" in state_dict:
            if f"{prefix}scope.bias" not in state_dict:
                self.scope.bias = None
            elif self.scope.bias is None:
                self.scope.bias = nn.Parameter(self.scope.weight.new_zeros(self.scope.out_channels))
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)

    def extra_repr(self) -> str:
        options = f"style={self.style!r}, groups={self.groups}, dyscope={self.scope is not None}"
        return f"{super().extra_repr()}, {options}"


class Offset(PointConv):
    """Predicts offsets so small at first that sampling starts as bilinear interpolation."""

    def reset_parameters(self) -> None:
        nn.init.normal_(self.weight, std=0.001)
        if self.bias is not None:
            nn.init.zeros_(self.bias)


class Scope(PointConv):
    """Predicts the logit of the scope, 0 at first."""

    def reset_parameters(self) -> None:
        nn.init.zeros_(self.weight)
        if self.bias is not None:
            nn.init.zeros_(self.bias)
