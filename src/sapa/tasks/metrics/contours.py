"""Boundaries in label maps [B, H, W], where -1 is ignored and borders on nothing; one pass for all classes."""

from math import floor

import torch
from torch import Tensor
from torch.nn.functional import pad

# below every label and its negative
LEAST = -(2**15)


def band(labels: Tensor, width: int) -> Tensor:
    """The pixels that eroding each class by 3x3, `width` times, takes away: mask minus eroded mask of Cheng et al.

    A pixel survives if its whole square of 2 * width + 1 has its label; so the least and the greatest label around say
    it for every class at once. Beyond the frame is another class, as in their code.
    """
    high = labels.to(torch.int16)
    low = (-high).where(labels >= 0, LEAST)
    for dim in (-2, -1):
        high, low = greatest(high, width, dim), greatest(low, width, dim)
    H, W = labels.shape[-2:]
    framed = torch.ones_like(labels, dtype=torch.bool)
    framed[:, width : H - width, width : W - width] = False
    return (labels >= 0) & (framed | (high != labels) | (-low != labels))


def greatest(x: Tensor, width: int, dim: int) -> Tensor:
    """The greatest of the 2 * width + 1 values around each along one dimension, by spans that double."""
    n, size = x.shape[dim], 2 * width + 1
    margin = [0, 0, width, width] if dim == -2 else [width, width]
    found, span = pad(x, margin, value=LEAST), 1
    while 2 * span <= size:
        length = found.shape[dim] - span
        found = torch.maximum(found.narrow(dim, 0, length), found.narrow(dim, span, length))
        span *= 2
    return torch.maximum(found.narrow(dim, 0, n), found.narrow(dim, size - span, n))


def contour(labels: Tensor) -> Tensor:
    """The pixels with another class among their four neighbours. The frame is no contour."""
    found = torch.zeros_like(labels, dtype=torch.bool)
    for here, there in (
        ((..., slice(1, None), slice(None)), (..., slice(-1), slice(None))),
        ((..., slice(1, None)), (..., slice(-1))),
    ):
        differs = (labels[here] != labels[there]) & (labels[here] >= 0) & (labels[there] >= 0)
        found[here] |= differs
        found[there] |= differs
    return found


def matches(lines: Tensor, others: Tensor, reach: float) -> Tensor:
    """Which pixels of contours (their class, else -1) have one of the same class in `others` at most `reach` away."""
    found = torch.zeros_like(lines, dtype=torch.bool)
    for label in lines[lines >= 0].unique():
        found |= (lines == label) & near(others == label, reach)
    return found


def near(points: Tensor, reach: float) -> Tensor:
    """What lies in a disk around any of the points [B, H, W]: row by row, each as a difference of running counts."""
    H, W = points.shape[-2:]
    radius = floor(reach)
    # counts[x] is how many points lie left of x - radius
    counts = pad(points, (radius + 1, radius)).cumsum(-1, dtype=torch.int32)
    counts = pad(counts, (0, 0, radius, radius))  # [B, H + 2 radius, W + 2 radius + 1]
    found = torch.zeros_like(points)
    for dy in range(-radius, radius + 1):
        half = floor((reach**2 - dy**2) ** 0.5)
        rows = counts[:, radius + dy : radius + dy + H]
        right, left = radius + 1 + half, radius - half
        found |= rows[..., right : right + W] > rows[..., left : left + W]
    return found
