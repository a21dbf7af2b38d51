"""Semantic segmentation: a class for every pixel."""

from typing import Any, cast

import torch
import torch.nn.functional as F
from accelerate.utils import reduce
from torch import Tensor, nn

from sapa import models
from sapa.geometry import Size
from sapa.models.fit import Up
from sapa.models.imagenet import normalise
from sapa.tasks.metrics import SegmentationMetric
from sapa.tasks.nets import ENCODERS, Pyramid
from sapa.tasks.pictures import paint
from sapa.tasks.task import Batch, Pictures, Task

IGNORE = 255
BY_QUERIES = ("maskformer_swin_b", "mask2former_swin_b")  # they predict masks and the class of each


class Segmentation(Task):
    name = "segmentation"
    shown = ("mIoU", "boundary IoU", "boundary F")
    error = "Red is wrong within two pixels of a boundary, orange wrong elsewhere; the band at boundaries is darker."

    def model(self, up: Up) -> nn.Module:
        net, options = self.preset.net, self.options()
        if net in ENCODERS:
            return Pyramid(net, up, self.count, **options)
        model: Any = models.build(net, up, num_classes=self.count, pretrained=self.preset.pretrained, **options)
        if net in BY_QUERIES:
            model.criterion.get_num_masks = _mask_count
        return model

    @property
    def count(self) -> int:
        if not self.classes:
            raise ValueError("segmentation needs the classes of its data, and this has none.")
        return len(self.classes)

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        x, mask = normalise(batch["image"]), batch["mask"]
        if self.preset.net in BY_QUERIES:
            return model(pixel_values=x, **_masks(mask)).loss
        logits = _logits(model(x), (mask.shape[1], mask.shape[2])).float()
        total = F.cross_entropy(logits, mask, ignore_index=IGNORE, reduction="sum")
        return total / (mask != IGNORE).sum().clamp_min(1)

    def weight(self, batch: Batch) -> Tensor:
        if self.preset.net in BY_QUERIES:
            return super().weight(batch)
        return (batch["mask"] != IGNORE).sum().float()

    def predict(self, model: nn.Module, batch: Batch) -> Tensor:
        """Labels [B, H, W], as large as the truth."""
        output, mask = model(normalise(batch["image"])), batch["mask"]
        return _logits(output, (mask.shape[1], mask.shape[2])).argmax(1)

    def metric(self) -> SegmentationMetric:
        return SegmentationMetric(self.classes or ())

    def update(self, metric: Any, prediction: Tensor, batch: Batch) -> None:
        metric.update(prediction, batch["mask"])

    def pictures(self, prediction: Tensor, batch: Batch, i: int) -> Pictures:
        found, truth = prediction[i], batch["mask"][i]
        image = F.interpolate(batch["image"][i][None], truth.shape, mode="bilinear", align_corners=False)[0]
        near, wrong = _near_boundaries(truth), (found != truth) & (truth != IGNORE)
        grey = image.mean(0, keepdim=True).expand(3, -1, -1) * 0.45 + 0.5
        error = torch.where(near, 0.62 * grey, grey)  # the band is darker
        error = torch.where(wrong, torch.tensor([0.95, 0.62, 0.2], device=image.device)[:, None, None], error)
        error = torch.where(wrong & near, torch.tensor([0.82, 0.1, 0.16], device=image.device)[:, None, None], error)
        shown = torch.where(truth == IGNORE, truth, found)
        return {"image": image, "truth": paint(truth), "prediction": paint(shown), "error": error}


def _logits(output: Any, size: Size) -> Tensor:
    """What a model says of each pixel, in the form its library gives it, at a size: [B, C, H, W]."""
    if hasattr(output, "masks_queries_logits"):
        from sapa.models.maskformer import class_maps

        return class_maps(output, size)
    logits: Tensor = output if isinstance(output, Tensor) else output.logits
    if (logits.shape[2], logits.shape[3]) == size:
        return logits
    return F.interpolate(logits, size, mode="bilinear", align_corners=False)


def _masks(mask: Tensor) -> dict[str, list[Tensor]]:
    """A mask for each class in each picture, and the class."""
    classes = [labels[labels != IGNORE] for labels in (each.unique() for each in mask)]
    masks = [(each == found[:, None, None]).float() for each, found in zip(mask, classes, strict=True)]
    return {"mask_labels": masks, "class_labels": classes}


def _mask_count(class_labels: list[Tensor], device: torch.device) -> Tensor:
    """Masks in a process, the mean over all. That of transformers divides the mean by the number of processes again."""
    count = torch.tensor(float(sum(map(len, class_labels))), device=device)
    return cast(Tensor, reduce(count, "mean")).clamp_min(1)


def _near_boundaries(labels: Tensor, reach: int = 2) -> Tensor:
    """Pixels with another class within so many pixels of them: [H, W]."""
    known = labels.float()[None, None]
    high, low = (sign * F.max_pool2d(sign * known, 2 * reach + 1, 1, reach) for sign in (1, -1))
    return (high != low)[0, 0]
