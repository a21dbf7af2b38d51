"""Errors and accuracies of depth, as Eigen et al. (2014) defined them and BTS reports them."""

import torch
from torch import Tensor
from torchmetrics import Metric

from sapa.tasks.metrics.maps import same_shape

NAMES = ("δ<1.25", "δ<1.25²", "δ<1.25³", "Abs Rel", "Sq Rel", "RMS", "RMS log", "log10")


class DepthMetric(Metric):
    """Each number for each image over its known pixels, then the mean over the images, as published results are.

    A prediction is clamped to the range; one that is not a number makes the result none, rather than passing for near.

    Args:
        max_depth: in metres; truth beyond is left out, as is truth not above min_depth (0 is unknown).
        min_depth: in metres.
    """

    main = "RMS"
    higher = False
    full_state_update = False
    total: Tensor
    images: Tensor

    def __init__(self, max_depth: float = 10, min_depth: float = 1e-3) -> None:
        super().__init__()
        self.range = (min_depth, max_depth)
        self.add_state("total", torch.zeros(len(NAMES), dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state("images", torch.zeros((), dtype=torch.int64), dist_reduce_fx="sum")

    def update(self, depth: Tensor, target: Tensor) -> None:
        """Both [B, 1, H, W], in metres."""
        same_shape("DepthMetric", depth=depth, target=target)
        low, high = self.range
        for found, truth in zip(depth, target, strict=True):
            known = (truth > low) & (truth < high)
            if known.any():
                self.total += errors(found[known].double().clamp(low, high), truth[known].double())
                self.images += 1

    def compute(self) -> dict[str, float]:
        return dict(zip(NAMES, (self.total / self.images).tolist(), strict=True))


def errors(found: Tensor, truth: Tensor) -> Tensor:
    """The eight numbers of one image, from its known pixels [n]."""
    ratio = torch.maximum(found / truth, truth / found)
    error, logs = found - truth, found.log() - truth.log()
    return torch.stack(
        [
            *((ratio < 1.25**power).double().mean() for power in (1, 2, 3)),
            (error.abs() / truth).mean(),
            (error**2 / truth).mean(),
            (error**2).mean().sqrt(),
            (logs**2).mean().sqrt(),
            (found.log10() - truth.log10()).abs().mean(),
        ]
    )
