"""IndexNet: Indices Matter, Learning to Index for Deep Image Matting (Lu et al., ICCV 2019, arXiv 1908.00672)."""

from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sapa import checks
from sapa.functional import assemble
from sapa.geometry import Size, fill_cells, keep_format, size_of, spread_cells
from sapa.nn.base import Upsampler

INDICES = ("hin", "m2o", "o2o")


class IndexNet(Upsampler):
    """Upsample by repeating each low-res point, times an index between 0 and 1 that is learned from the encoder.

    Each cell of S_y*S_x guide points predicts the index of its points. `pool` is the way down that belongs to it: the
    same index, as weights with which a cell is summed. The forms differ in the index alone:

    - hin (holistic): one for all channels.
    - m2o (depthwise, many to one): one for each channel, from all channels of the guide.
    - o2o (depthwise, one to one): one for each channel, from that channel; needs `guide_channels == channels`.

    Args:
        channels: C, of the low-res map x.
        guide_channels: of the guide; `channels` if None.
        index: "hin", "m2o" or "o2o".
        scale: the size of a cell; the output has the size of the guide.
        use_nonlinear: two layers with a BatchNorm and a ReLU6 between them, rather than one.
        use_context: predict from one more point on each side of the cell.

    >>> up = sapa.build("indexnet_hin", 256, guide_channels=64)
    >>> down = up.pool(guide)  # [B, 64, 64, 64] -> [B, 64, 32, 32]
    >>> y = up(x, guide)  # [B, 256, 32, 32], [B, 64, 64, 64] -> [B, 256, 64, 64]

    Paper: the holistic (HIN) and depthwise (DIN) index networks, IndexedPooling and IndexedUpsampling.
    """

    needs_guide: ClassVar[bool] = True

    def __init__(
        self,
        channels: int,
        guide_channels: int | None = None,
        *,
        index: str = "hin",
        scale: int | Size = 2,
        use_nonlinear: bool = True,
        use_context: bool = True,
    ) -> None:
        super().__init__(channels, guide_channels, scale=scale)
        checks.one_of("IndexNet", "index", index, INDICES)
        if index == "o2o" and self.guide_channels != channels:
            raise ValueError(
                f"IndexNet: index='o2o' takes the index of a channel of x from the same channel of guide, but x has "
                f"{channels} and guide {self.guide_channels} channels; use 'm2o' or 'hin'."
            )
        self.index = index
        points, margin, groups = self.scale[0] * self.scale[1], int(use_context), channels if index == "o2o" else 1

        def head(hidden: int, outputs: int) -> nn.Sequential:
            first = nn.Conv2d(
                self.guide_channels,
                hidden if use_nonlinear else outputs,
                (self.scale[0] + 2 * margin, self.scale[1] + 2 * margin),
                stride=self.scale,
                padding=margin,
                groups=groups,
                bias=False,
            )
            if not use_nonlinear:
                return nn.Sequential(first)
            last = nn.Conv2d(hidden, outputs, 1, groups=groups, bias=False)
            return nn.Sequential(first, nn.BatchNorm2d(hidden), nn.ReLU6(), last)

        if index == "hin":
            # without a second layer the release has no Sequential around the first
            both = head(2 * self.guide_channels, points)
            self.indexnet = both if use_nonlinear else both[0]
        else:
            for i in range(points):
                self.add_module(f"indexnet{i + 1}", head(channels, channels))

    def upsample(self, x: Tensor, guide: Tensor, size: Size) -> Tensor:
        index = self._index(guide)
        return assemble(x, self._spread(index, size), kernel_size=1, groups=index.shape[1])

    def indices(self, guide: Tensor) -> tuple[Tensor, Tensor]:
        """The index of the way down, whose points of a cell sum to 1, and that of the way up: [B, 1 or C, H, W]."""
        checks.bind("IndexNet.indices", guide=(guide, "B Cg H W"))
        self._expects("guide", self.guide_channels, guide, "B Cg H W")
        index, size = self._index(guide), size_of(guide)
        return self._spread(index.softmax(2), size), self._spread(index, size)

    def pool(self, guide: Tensor) -> Tensor:
        """Sum each cell of the guide by its index: [B, Cg, H, W] to [B, Cg, ceil(H / S_y), ceil(W / S_x)]."""
        if self.index != "hin" and self.guide_channels != self.channels:
            raise ValueError(
                f"IndexNet.pool: index={self.index!r} has {self.channels} indices, one for each channel of x, and "
                f"cannot pool a guide of {self.guide_channels} channels; build it with index='hin', "
                f"or for equal channels."
            )
        down, _ = self.indices(guide)
        return keep_format(F.avg_pool2d(down * guide, self.scale, ceil_mode=True, divisor_override=1), guide)

    def _index(self, guide: Tensor) -> Tensor:
        """Of the points in each cell: [B, 1 or C, S_y*S_x, h, w]."""
        guide = fill_cells(guide, self.scale)
        if self.index == "hin":
            return self.indexnet(guide).sigmoid().unsqueeze(1)
        logits = [head(guide) for name, head in self.named_children() if name.startswith("indexnet")]
        return torch.stack(logits, 2).sigmoid()

    def _spread(self, index: Tensor, size: Size) -> Tensor:
        return spread_cells(index.flatten(1, 2), self.scale, size)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, index={self.index!r}"
