"""DUpsample: Decoders Matter for Semantic Segmentation (Tian et al., CVPR 2019, arXiv 1903.02120)."""

from collections.abc import Iterable
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from sapa import checks
from sapa.functional import project
from sapa.geometry import Size, fill_cells, keep_format, pixel_shuffle
from sapa.nn.base import Upsampler
from sapa.nn.pointwise import PointConv


class DUpsample(Upsampler):
    """Expand each low-res point by one learned matrix into the S_y*S_x points of its cell.

    In the paper x is compressed from label maps, out_channels are the classes, and `fit_` finds the matrix that
    restores such maps best before the network is trained.

    Args:
        channels: C, of the low-res map x.
        guide_channels: of a guide, which only gives the size.
        scale: S, or (S_y, S_x).
        out_channels: such as the number of classes; `channels` if None.
        has_temperature: divide the output by a learned temperature, which sharpens the softmax over logits.

    >>> up = sapa.build("dupsample", 64, out_channels=21, scale=8)
    >>> lost = up.fit_(F.one_hot(labels, 21).permute(0, 3, 1, 2).float() for labels in loader)
    >>> logits = up(x)  # [B, 64, 32, 32] -> [B, 21, 256, 256]
    """

    any_size: ClassVar[bool] = False

    def __init__(
        self,
        channels: int,
        guide_channels: int | None = None,
        *,
        scale: int | Size = 2,
        out_channels: int | None = None,
        has_temperature: bool = False,
    ) -> None:
        super().__init__(channels, guide_channels, scale=scale)
        self.out_channels = channels if out_channels is None else out_channels
        checks.positive("DUpsample", out_channels=self.out_channels)
        self.conv_w = _Expansion(channels, self.out_channels * self.scale[0] * self.scale[1], bias=False)
        self.register_load_state_dict_pre_hook(_drop_conv_p)
        self.T = nn.Parameter(torch.ones(1)) if has_temperature else None

    def upsample(self, x: Tensor, guide: Tensor | None, size: Size) -> Tensor:
        # the channels are the points of a cell row by row, each with all its out_channels
        cells = self.conv_w(x).unflatten(1, (-1, self.out_channels)).transpose(1, 2).flatten(1, 2)
        y = pixel_shuffle(cells, self.scale)
        return keep_format(y if self.T is None else y / self.T.to(y.dtype), x)

    def shrink(self, y: Tensor) -> Tensor:
        """Compress a high-res map so that, after `fit_`, the module restores it best: [B, D, H, W] to [B, C, h, w]."""
        return project(self._cells(y), self.conv_w.weight.flatten(1).t())

    @torch.no_grad()
    def fit_(self, maps: Tensor | Iterable[Tensor]) -> float:
        """Set the matrix to the one that loses least of high-res maps when it restores them from C channels.

        The best matrix consists of the principal directions of the cells, found here at once rather than by descent.

        Args:
            maps: float [B, out_channels, H, W], such as one-hot labels, or several of them.

        Returns:
            The part of the squares that is lost, from 0 to 1.
        """
        rows = self.conv_w.out_channels
        moment = torch.zeros(rows, rows, dtype=torch.float64)
        for y in [maps] if isinstance(maps, Tensor) else maps:
            checks.bind("DUpsample.fit_", maps=(y, "B D H W"))
            self._expects("maps", self.out_channels, y, "B D H W")
            cells = self._cells(y).transpose(0, 1).flatten(1).double()  # [D*S*S, B*h*w]
            moment += (cells @ cells.t()).cpu()
        squares, directions = (t.flip(-1) for t in torch.linalg.eigh(moment))
        kept = min(rows, self.channels)
        weight = torch.zeros(rows, self.channels, dtype=torch.float64)
        weight[:, :kept] = directions[:, :kept]
        self.conv_w.weight.copy_(weight[..., None, None])
        total = float(squares.sum())
        return max(0.0, 1 - float(squares[:kept].sum()) / total) if total else 0.0

    def _cells(self, y: Tensor) -> Tensor:
        Sy, Sx = self.scale
        y = fill_cells(y, self.scale).unflatten(3, (-1, Sx)).unflatten(2, (-1, Sy))  # [B, D, h, Sy, w, Sx]
        return y.permute(0, 3, 5, 1, 2, 4).flatten(1, 3)


def _drop_conv_p(module: nn.Module, state_dict: dict[str, Any], prefix: str, *_: Any) -> None:
    # the matrix P, which some checkpoints keep from their pre-training
    state_dict.pop(f"{prefix}conv_p.weight", None)


class _Expansion(PointConv):
    def reset_parameters(self) -> None:
        nn.Conv2d.reset_parameters(self)
