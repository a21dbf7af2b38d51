"""Feature maps of a photograph without a network, and colours for feature maps of any kind."""

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

CHANNELS = 64
Paint = Callable[[Tensor], Tensor]


def features(photo: Tensor, channels: int = CHANNELS) -> Tensor:
    """Random Fourier features: their inner product falls with the distance of two colours, as of trained features."""
    generator = torch.Generator().manual_seed(0)
    directions = 3 * torch.randn(channels, 3, 1, 1, generator=generator)
    phases = 2 * torch.pi * torch.rand(channels, generator=generator)
    return torch.cos(F.conv2d(photo, directions, phases))


def painter(reference: Tensor) -> Paint:
    """Colours for feature maps: their first three principal components, fitted once so that maps can be compared."""
    points = reference[0].flatten(1)  # [C, H*W]
    components = torch.linalg.eigh(torch.cov(points).reshape(len(points), -1)).eigenvectors[:, -3:].T  # [3, C]
    return _paint(components, points)


def channel_painter(reference: Tensor, channels: Sequence[int]) -> Paint:
    """As `painter`, with three channels of the map for red, green and blue, or with one in grey."""
    points = reference[0].flatten(1)
    if len(channels) not in (1, 3) or not all(0 <= channel < len(points) for channel in channels):
        raise ValueError(
            f"see: colours must be one channel or three of 0 to {len(points) - 1}, got {tuple(channels)}. Without "
            f"them, the principal components are shown."
        )
    return _paint(torch.eye(len(points))[list(channels)], points)


def _paint(components: Tensor, points: Tensor) -> Paint:
    mean = points.mean(1, keepdim=True)
    projected = (components @ (points - mean))[:, :: 16 if points.shape[1] > 4096 else 1]
    low, high = torch.quantile(projected, torch.tensor([0.01, 0.99]), dim=1)[..., None]  # each [3, 1]
    # a map without any difference is grey
    is_flat = high - low < 1e-6
    low, extent = torch.where(is_flat, low - 0.5, low), torch.where(is_flat, 1.0, high - low)

    def paint(y: Tensor) -> Tensor:
        colours = (components @ (y[0].flatten(1) - mean) - low) / extent
        if len(colours) < 3:  # a map of one or two channels
            colours = colours[torch.tensor([0, -1 % len(colours), 0])]
        return colours.clamp(0, 1).T.unflatten(0, y.shape[-2:])  # [H, W, 3]

    return paint
