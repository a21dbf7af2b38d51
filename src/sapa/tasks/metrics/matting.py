"""The four errors of alpha mattes by Rhemann et al. (CVPR 2009), over the unknown region of the trimap."""

from math import ceil, log, pi, sqrt

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import conv2d, pad
from torchmetrics import Metric

from sapa.tasks.metrics.maps import same_shape

NAMES = ("SAD", "MSE", "Grad", "Conn")
# as tables show them: sums in thousands, the mean in thousandths
SCALE = (1e-3, 1e3, 1e-3, 1e-3)
SIGMA, STEP, THETA = 1.4, 0.1, 0.15


class MattingMetric(Metric):
    """SAD / 1000, MSE * 1000, Grad / 1000 and Conn / 1000, each for each image, then the mean over the images.

    Known pixels of a prediction are taken from the trimap first, as the published evaluations do: Conn looks at the
    whole matte. An image without an unknown region is left out. Conn needs connected regions, which are found on the
    CPU; all else stays on the device.
    """

    main = "SAD"
    higher = False
    full_state_update = False
    total: Tensor
    images: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.add_state("total", torch.zeros(len(NAMES), dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state("images", torch.zeros((), dtype=torch.int64), dist_reduce_fx="sum")

    def update(self, alpha: Tensor, target: Tensor, trimap: Tensor) -> None:
        """All [B, 1, H, W]; the trimap is 0, 0.5 (or anything between) and 1."""
        same_shape("MattingMetric", alpha=alpha, target=target, trimap=trimap)
        for found, truth, known in zip(alpha, target, trimap, strict=True):
            unknown = (known > 0) & (known < 1)
            if unknown.any():
                found = found.double().clamp(0, 1).where(unknown, known.double())
                self.total += errors(found[0], truth[0].double(), unknown[0])
                self.images += 1

    def compute(self) -> dict[str, float]:
        scale = torch.tensor(SCALE, dtype=torch.float64, device=self.total.device)
        return dict(zip(NAMES, (self.total * scale / self.images).tolist(), strict=True))


def errors(found: Tensor, truth: Tensor, unknown: Tensor) -> Tensor:
    """The four numbers of one matte [H, W], not scaled."""
    difference = (found - truth)[unknown]
    gradients = (steepness(found) - steepness(truth))[unknown]
    connected = connectivity(found.cpu().numpy(), truth.cpu().numpy(), unknown.cpu().numpy())
    return torch.stack(
        [
            difference.abs().sum(),
            (difference**2).mean(),
            (gradients**2).sum(),
            torch.tensor(connected, dtype=torch.float64, device=found.device),
        ]
    )


def steepness(alpha: Tensor) -> Tensor:
    """The magnitude of the gradient by derivatives of a Gaussian, of unit norm, cut where they fall below 1 %."""
    radius = ceil(SIGMA * sqrt(-2 * log(sqrt(2 * pi) * SIGMA * 1e-2)))
    x = torch.arange(-radius, radius + 1, dtype=alpha.dtype, device=alpha.device)
    smooth = (-(x**2) / (2 * SIGMA**2)).exp()
    slope = -x * smooth
    kernel = smooth[:, None] * slope  # [k, k]
    kernel = kernel / kernel.norm()
    planes = pad(alpha[None, None], (radius,) * 4, mode="replicate")
    dx, dy = conv2d(planes, torch.stack([kernel, kernel.T])[:, None])[0]
    return (dx**2 + dy**2).sqrt()


def connectivity(found: np.ndarray, truth: np.ndarray, unknown: np.ndarray) -> float:
    """How much the two differ in being connected to what is opaque in both.

    A pixel is connected down to the greatest threshold at which it lies in the largest region, by four neighbours,
    that both mattes have there; what a matte has beyond that counts once it is `THETA` or more.
    """
    from scipy.ndimage import label

    level = np.ones_like(truth)
    is_open = np.ones(truth.shape, bool)
    for step in range(1, round(1 / STEP) + 1):
        both = (found >= step * STEP) & (truth >= step * STEP)
        regions, number = label(both)  # type: ignore[misc]
        largest = regions == 1 + np.bincount(regions[both])[1:].argmax() if number else np.zeros_like(both)
        level[is_open & ~largest] = (step - 1) * STEP
        is_open &= largest
    degrees = []
    for matte in (found, truth):
        beyond = matte - level
        degrees.append(1 - beyond * (beyond >= THETA))
    return float(np.abs(degrees[0] - degrees[1])[unknown].sum())
