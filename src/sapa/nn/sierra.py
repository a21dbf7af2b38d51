"""SIERRA: a robust bilateral feature upsampler for dense prediction (CVIU 2023)."""

from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from sapa import checks
from sapa.functional import assemble
from sapa.geometry import Size, pixel_shuffle
from sapa.nn.base import Upsampler

# added to both squared distances, so that a tap at distance 0 has a finite score
SOFTENING = 0.2


class SIERRA(Upsampler):
    """Upsample by nearness in place and in value; it has nothing to learn.

    Tap t of point p scores 1 / (distance² + 0.2) for their places, in low-res points, times 1 / (difference² + 0.2)
    for the channel means of the tap and of the centre. The weights are the softmax of these scores. Taps outside the
    image stay in it with a mean of 0.

    Args:
        channels: C, of the low-res map x.
        guide_channels: of the guide, which gives its size alone; `channels` if None.
        scale: S, or (S_y, S_x).
        kernel_size: odd K, or (Kh, Kw).

    >>> up = sapa.build("sierra", 256)
    >>> y = up(x)  # [B, 256, 32, 32] -> [B, 256, 64, 64]
    """

    any_size: ClassVar[bool] = False
    kernel: Tensor

    def __init__(
        self,
        channels: int,
        guide_channels: int | None = None,
        *,
        scale: int | Size = 2,
        kernel_size: int | Size = 3,
    ) -> None:
        super().__init__(channels, guide_channels, scale=scale)
        self.kernel_size = checks.odd_pair("SIERRA", kernel_size)
        P, phases = self.kernel_size[0] * self.kernel_size[1], self.scale[0] * self.scale[1]
        self.register_buffer("kernel", torch.empty(P, phases))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Write the score by place of each tap for each point of a cell."""
        rows, columns = (_squared_distances(S, K) for S, K in zip(self.scale, self.kernel_size, strict=True))
        distance = rows[:, None, :, None] + columns[None, :, None, :]  # [Kh, Kw, S_y, S_x]
        self.kernel.copy_((1 / (distance + SOFTENING)).view(self.kernel.shape))

    def upsample(self, x: Tensor, guide: Tensor | None, size: Size) -> Tensor:
        return assemble(x, self._weights(x), kernel_size=self.kernel_size)

    def kernels(self, x: Tensor, guide: Tensor | None = None) -> Tensor:
        """The weights that `forward` applies, to look at them: [B, K*K, S_y*h, S_x*w]."""
        self.check(x, guide)
        return self._weights(x)

    def _weights(self, x: Tensor) -> Tensor:
        # a score reaches 25, and rounding it to a half type would change its exponential by a tenth
        wide = torch.promote_types(x.dtype, torch.float32)
        mean = x.mean(1, keepdim=True, dtype=wide)  # [B, 1, h, w]
        by_value = 1 / ((_neighbours(mean, self.kernel_size) - mean).square() + SOFTENING)  # [B, P, h, w]
        scores = by_value.unsqueeze(2) * self.kernel.to(wide)[:, :, None, None]  # [B, P, S_y*S_x, h, w]
        return pixel_shuffle(scores.flatten(1, 2), self.scale).softmax(1).to(x.dtype)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, kernel_size={self.kernel_size}"


def _squared_distances(S: int, K: int) -> Tensor:
    """From each of K taps to each of S points in the middle cell: [K, S]."""
    taps = torch.arange(K, dtype=torch.float64) - K // 2
    points = (torch.arange(S, dtype=torch.float64) + 0.5) / S - 0.5
    return (taps[:, None] - points).square()


def _neighbours(m: Tensor, kernel_size: Size) -> Tensor:
    """The K*K points around each one, 0 outside the image: [B, 1, h, w] to [B, P, h, w]."""
    (Kh, Kw), (h, w) = kernel_size, m.shape[2:]
    padded = F.pad(m, (Kw // 2, Kw // 2, Kh // 2, Kh // 2))
    return torch.cat([padded[..., i : i + h, j : j + w] for i in range(Kh) for j in range(Kw)], 1)
