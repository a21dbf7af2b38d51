"""Overlap of classes, everywhere and near their boundaries."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torchmetrics import Metric

from sapa.tasks.metrics.contours import band, contour, matches
from sapa.tasks.metrics.maps import same_shape

# of the diagonal: Cheng et al., 2021, and Csurka et al., 2013
BAND, TOLERANCE = 0.02, 0.0075


class SegmentationMetric(Metric):
    """IoU and boundary IoU of each class and their means, boundary F and pixel accuracy, all in percent.

    Counts are pooled over all images before any division, so that the result is the same however the images are dealt
    to processes. A class in neither the truth nor any prediction is left out of the means; where all is ignored, there
    is nothing to divide and the means are NaN.

    Args:
        classes: their names, or how many there are.
        ignore: the label that says nothing.
    """

    main = "mIoU"
    higher = True
    full_state_update = False
    both: Tensor
    predicted: Tensor
    true: Tensor
    band_both: Tensor
    band_predicted: Tensor
    band_true: Tensor
    contour_predicted: Tensor
    contour_true: Tensor
    hit_predicted: Tensor
    hit_true: Tensor

    def __init__(self, classes: int | Sequence[str], *, ignore: int = 255) -> None:
        super().__init__()
        self.names = [str(i) for i in range(classes)] if isinstance(classes, int) else list(classes)
        self.ignore = ignore
        counts = ("both", "predicted", "true")
        near = ("band_both", "band_predicted", "band_true")
        lines = ("contour_predicted", "contour_true", "hit_predicted", "hit_true")
        for name in (*counts, *near, *lines):
            self.add_state(name, torch.zeros(len(self.names), dtype=torch.int64), dist_reduce_fx="sum")

    def update(self, prediction: Tensor, mask: Tensor) -> None:
        """Logits [B, C, H, W] or labels [B, H, W]; truth [B, H, W]."""
        found = prediction.argmax(1) if prediction.ndim == mask.ndim + 1 else prediction
        same_shape("SegmentationMetric", prediction=found, mask=mask)
        known = mask != self.ignore
        # what is ignored is so in both, and makes no boundary in either
        found, truth = found.long().where(known, -1), mask.long().where(known, -1)
        self._check("mask", truth, known)
        self._check("prediction", found, known)
        self.both += self._count(found, found == truth)
        self.predicted += self._count(found)
        self.true += self._count(truth)
        diagonal = (mask.shape[-2] ** 2 + mask.shape[-1] ** 2) ** 0.5
        self._near_boundaries(found, truth, max(1, round(BAND * diagonal)))
        self._on_contours(found, truth, TOLERANCE * diagonal)

    def _near_boundaries(self, found: Tensor, truth: Tensor, width: int) -> None:
        near_found, near_truth = band(found, width), band(truth, width)
        self.band_both += self._count(found, near_found & near_truth & (found == truth))
        self.band_predicted += self._count(found, near_found)
        self.band_true += self._count(truth, near_truth)

    def _on_contours(self, found: Tensor, truth: Tensor, reach: float) -> None:
        lines, true_lines = found.where(contour(found), -1), truth.where(contour(truth), -1)
        self.contour_predicted += self._count(lines)
        self.contour_true += self._count(true_lines)
        self.hit_predicted += self._count(lines, matches(lines, true_lines, reach))
        self.hit_true += self._count(true_lines, matches(true_lines, lines, reach))

    def _check(self, name: str, labels: Tensor, known: Tensor) -> None:
        low, high = int(labels.where(known, 0).min()), int(labels.max())
        if low < 0 or high >= len(self.names):
            raise ValueError(
                f"SegmentationMetric: {name} has the label {low if low < 0 else high}, and there are "
                f"{len(self.names)} classes. Labels count from 0; {self.ignore} is ignored."
            )

    def _count(self, labels: Tensor, where: Tensor | None = None) -> Tensor:
        """How many pixels there are of each class; -1 is none."""
        labels = labels if where is None else labels.where(where, -1)
        return torch.bincount(labels.flatten() + 1, minlength=len(self.names) + 1)[1:]

    def compute(self) -> dict[str, float]:
        # not every device has doubles
        count = {name: getattr(self, name).cpu().double() for name in self._reductions}
        # [C] each, NaN for a class that is nowhere
        overlap = count["both"] / (count["predicted"] + count["true"] - count["both"])
        near = count["band_both"] / (count["band_predicted"] + count["band_true"] - count["band_both"])
        precision, recall = (
            count["hit_predicted"] / count["contour_predicted"],
            count["hit_true"] / count["contour_true"],
        )
        is_drawn = count["contour_predicted"] + count["contour_true"] > 0
        # 0 where only one of the two has a contour
        f = (2 * precision * recall / (precision + recall)).nan_to_num(0).where(is_drawn, torch.nan)
        means = {
            "mIoU": overlap.nanmean(),
            "boundary IoU": near.nanmean(),
            "boundary F": f.nanmean(),
            "pixel accuracy": count["both"].sum() / count["true"].sum(),
        }
        each = {f"IoU {name}": value for name, value in zip(self.names, overlap, strict=True)}
        return {name: 100 * float(value) for name, value in (means | each).items()}
