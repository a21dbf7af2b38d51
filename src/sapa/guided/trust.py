"""How far the guide is to be trusted, and where: the low-res map itself tells.

It is shrunk once more, to half its size, and predicted from that half: by bilinear interpolation, and with the help of
the guide at several widths of likeness. How well each does around a point decides how much it counts there. An edge of
colours without an edge in the map is a place where the guide predicts worse, so that it is held back: what a gate
learns in SAPA-G is measured here.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from sapa.geometry import size_of
from sapa.guided.colours import keys
from sapa.guided.grid import Grid

STEPS = (0.1, 0.2, 0.4, 0.8)  # widths of likeness, as parts of the deviation of the guide
WINDOW = 5  # low-res points over which errors are compared
DECISION = 4  # power of the ratio of errors
NARROWEST = 1e-12  # width of likeness, whose square can still be divided by
SMALLEST = 1e-4  # part of the mean error that counts as none


def trust(
    x: Tensor, low: Tensor, is_valid: Tensor | None, sigma: float | None, kernel_size: int, sigma_space: float
) -> tuple[Tensor, Tensor]:
    """Where the guide helps, and how alike colours must be: share [B, 1, h, w] and 1 / sigma^2 [B, 1, h, w].

    Args:
        x: low-res map [B, C, h, w], 0 where it is not valid.
        low: the guide's mean colours [B, Cg, h, w].
        sigma: the only width to try; None tries several.
    """
    h, w = size_of(x)
    # errors are only compared, and like this their squares are finite
    x = x / x.abs().amax((1, 2, 3), keepdim=True).clamp_min(torch.finfo(x.dtype).tiny)
    steps = _precisions(low, sigma)  # [B, n, 1, 1]
    grid, whole = Grid((h, w), ((h + 1) // 2, (w + 1) // 2), x.device), (0, (h + 1) // 2)
    half, half_colours = grid.cell_means(x, whole), grid.cell_means(low, whole)
    is_half_valid = None
    if is_valid is not None:
        part = grid.cell_means(is_valid.to(x.dtype), whole)
        is_half_valid = part > 0
        half = half / part.clamp_min(SMALLEST)
    plain = grid.bilinear(half, whole)
    if is_half_valid is not None:
        plain = plain / grid.bilinear(is_half_valid.to(x.dtype), whole).clamp_min(SMALLEST)
    g, k = F.pad(low, (0, 0, 0, 0, 0, 1), value=1.0), keys(half_colours, is_half_valid)

    def error(y: Tensor) -> Tensor:
        return (y - x).square().mean(1, keepdim=True)

    # one at a time, to take little memory
    found = [error(grid.attend(g * step, k, half, whole, kernel_size, sigma_space)) for step in steps.split(1, 1)]
    errors = torch.cat([*found, error(plain)], 1)  # [B, n + 1, h, w]
    shares = _shares(errors, is_valid)
    share = shares[:, :-1].sum(1, keepdim=True)
    logarithm = (shares[:, :-1] * steps.log()).sum(1, keepdim=True) / share.clamp_min(torch.finfo(x.dtype).tiny)
    return share, logarithm.exp()


def _precisions(low: Tensor, sigma: float | None) -> Tensor:
    if sigma is not None:
        return low.new_full((len(low), 1, 1, 1), max(sigma, NARROWEST) ** -2)
    variance = low.var((2, 3), correction=0).sum(1)[:, None, None, None]
    # a guide without any difference compares as equal, whatever the width
    variance = torch.where(variance > NARROWEST**2, variance, 1)
    return (low.new_tensor(STEPS).square()[:, None, None] * variance).reciprocal()


def _shares(errors: Tensor, is_valid: Tensor | None) -> Tensor:
    """The better a candidate does around a point, the larger its share: [B, n, h, w], which sum to 1."""
    weight = torch.ones_like(errors[:, :1]) if is_valid is None else is_valid.to(errors.dtype)
    total, count = (F.avg_pool2d(x, WINDOW, 1, WINDOW // 2) for x in (errors * weight, weight))
    errors = total / count.clamp_min(SMALLEST)
    errors = errors + SMALLEST * errors.mean((1, 2, 3), keepdim=True) + torch.finfo(errors.dtype).tiny
    likelihood = (errors.amin(1, keepdim=True) / errors) ** DECISION
    return likelihood / likelihood.sum(1, keepdim=True)
