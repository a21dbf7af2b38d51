"""Depth of every pixel from one photograph."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sapa import models
from sapa.models.fit import Up
from sapa.models.imagenet import normalise
from sapa.tasks.metrics import DepthMetric
from sapa.tasks.nets import ENCODERS, Pyramid
from sapa.tasks.pictures import ramp
from sapa.tasks.processes import summed
from sapa.tasks.task import Batch, Pictures, Task

MAX_DEPTH = 10.0  # metres
NEAREST = 0.1  # what is nearer is not learned from, as in BTS
FOCUS = 0.85  # how much of the mean error of the logarithm is forgiven: BTS


class Depth(Task):
    name = "depth"
    shown = ("RMS", "Abs Rel", "δ<1.25")
    is_higher_better = False
    error = "The lightest is wrong by a quarter of the distance or more."

    def model(self, up: Up) -> nn.Module:
        net, options = self.preset.net, self.options()
        if net in ENCODERS:
            return DepthNet(Pyramid(net, up, 1, **options))
        return models.build(net, up, max_depth=MAX_DEPTH, pretrained=self.preset.pretrained, **options)

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """The scale-invariant error of Eigen et al. (2014) in the form of BTS, over the pictures of all processes."""
        truth = batch["depth"]
        is_known = (truth > NEAREST) & (truth < MAX_DEPTH)
        error = model(normalise(batch["image"])).float().clamp_min(1e-3).log() - truth.clamp_min(1e-3).log()
        error = torch.where(is_known, error, torch.zeros_like(error))
        # before the root: that of a whole is not the mean of those of its parts
        total, squares, count = summed(torch.stack([error.sum(), error.square().sum(), is_known.sum().float()]))
        mean, square = total / count.clamp_min(1), squares / count.clamp_min(1)
        # without the 1e-6 the root has no slope where all is learned
        return 10 * (square - FOCUS * mean.square() + 1e-6).sqrt()

    def predict(self, model: nn.Module, batch: Batch) -> Tensor:
        """Metres [B, 1, H, W], as large as the truth."""
        depth, size = model(normalise(batch["image"])), batch["depth"].shape[2:]
        return depth if depth.shape[2:] == size else F.interpolate(depth, size, mode="bilinear", align_corners=False)

    def metric(self) -> DepthMetric:
        return DepthMetric(MAX_DEPTH)

    def update(self, metric: Any, prediction: Tensor, batch: Batch) -> None:
        metric.update(prediction, batch["depth"])

    def pictures(self, prediction: Tensor, batch: Batch, i: int) -> Pictures:
        found, truth = prediction[i, 0], batch["depth"][i, 0]
        known = truth > 0
        high = float(truth.max().clamp_min(1e-3))
        image = F.interpolate(batch["image"][i][None], truth.shape, mode="bilinear", align_corners=False)[0]
        error = torch.where(known, (found - truth).abs() / truth.clamp_min(1e-3), torch.zeros_like(truth))
        return {"image": image, "truth": ramp(truth, high), "prediction": ramp(found, high), "error": ramp(error, 0.25)}


class DepthNet(nn.Module):
    """A pyramid whose result is a part of the largest depth."""

    def __init__(self, pyramid: Pyramid) -> None:
        super().__init__()
        self.pyramid = pyramid

    def forward(self, x: Tensor) -> Tensor:
        return MAX_DEPTH * self.pyramid(x).sigmoid()
