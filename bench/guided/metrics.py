"""How far a map is from the truth. Everything is an error: the smaller, the better."""

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from bench.guided.sets import VOID, Example

METRICS = {
    "motorcycle": ("RMSE", "mean error", "bad pixels"),
    "NYU": ("RMSE", "mean error", "bad pixels"),
    "matting": ("RMSE", "SAD", "bad pixels", "1 - boundary F"),
    "CamVid": ("wrong pixels", "1 - mIoU", "1 - boundary IoU", "1 - boundary F"),
}
BAD = {"motorcycle": 1.0, "matting": 0.1}  # pixels, alpha
BAD_PART = 0.05  # of the depth
TOLERANCE = 1  # pixels, of the boundary F
BAND = 0.02  # of the diagonal, of the boundary IoU


def errors(name: str, y: Tensor, example: Example) -> dict[str, float]:
    found = dict(_of_labels(y, example.truth) if example.is_labels else _of_values(name, y, example.truth))
    return {metric: float(found[metric]) for metric in METRICS[name]}


def _of_values(name: str, y: Tensor, truth: Tensor) -> Iterator[tuple[str, Tensor]]:
    is_known = ~truth.isnan()
    error = (y - truth)[is_known].abs()
    limit = BAD[name] if name in BAD else BAD_PART * truth[is_known]
    yield "RMSE", error.square().mean().sqrt()
    yield "mean error", error.mean()
    yield "SAD", error.sum() / 1000
    yield "bad pixels", (error > limit).float().mean()
    yield "1 - boundary F", 1 - boundary_f(y > 0.5, truth > 0.5, is_known)


def _of_labels(y: Tensor, truth: Tensor) -> Iterator[tuple[str, Tensor]]:
    is_known = truth != VOID
    yield "wrong pixels", (y != truth)[is_known].float().mean()
    classes = [c for c in truth.unique().tolist() if c != VOID]
    pairs = [((y == c), (truth == c)) for c in classes]
    yield "1 - mIoU", 1 - torch.stack([overlap(a & is_known, b & is_known) for a, b in pairs]).mean()
    bands = [overlap(band(a) & is_known, band(b) & is_known) for a, b in pairs]
    yield "1 - boundary IoU", 1 - torch.stack(bands).mean()
    yield "1 - boundary F", 1 - boundary_f(y, truth, is_known)


def overlap(a: Tensor, b: Tensor) -> Tensor:
    return (a & b).sum() / (a | b).sum().clamp_min(1)


def band(mask: Tensor) -> Tensor:
    """The points of a mask that are near its edge."""
    H, W = mask.shape[-2:]
    d = max(1, round(BAND * (H * H + W * W) ** 0.5))
    # beyond the frame is outside of every mask
    outside = F.pad((~mask).float(), (d + 1, d, d + 1, d), value=1.0)
    # how many points outside lie in the square around each point, from sums up to its corners
    total = outside.cumsum(-1).cumsum(-2)
    rows = total[..., 2 * d + 1 :, :] - total[..., : -2 * d - 1, :]
    return mask & (rows[..., 2 * d + 1 :] - rows[..., : -2 * d - 1] > 0)


def boundary_f(y: Tensor, truth: Tensor, is_known: Tensor) -> Tensor:
    """Precision and recall of edges within TOLERANCE, as one number."""
    found, expected = edges(y) & is_known, edges(truth) & is_known
    precision = (found & _near(expected)).sum() / found.sum().clamp_min(1)
    recall = (expected & _near(found)).sum() / expected.sum().clamp_min(1)
    return 2 * precision * recall / (precision + recall).clamp_min(1e-9)


def edges(x: Tensor) -> Tensor:
    """Points that differ from the one below or on their right."""
    below = F.pad(x[..., 1:, :] != x[..., :-1, :], (0, 0, 0, 1))
    return below | F.pad(x[..., 1:] != x[..., :-1], (0, 1))


def _near(mask: Tensor) -> Tensor:
    return F.max_pool2d(mask.float(), 2 * TOLERANCE + 1, 1, TOLERANCE) > 0
