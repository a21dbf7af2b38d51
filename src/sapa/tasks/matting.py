"""Image matting: how much of each pixel is foreground, from a photograph and a trimap."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sapa import models
from sapa.models.fit import Up
from sapa.models.imagenet import normalise
from sapa.tasks.metrics import MattingMetric
from sapa.tasks.nets import ENCODERS, Pyramid
from sapa.tasks.task import Batch, Pictures, Task


class Matting(Task):
    name = "matting"
    shown = ("SAD", "MSE", "Grad", "Conn")
    is_higher_better = False
    error = "Black is wrong by a quarter or more."

    def model(self, up: Up) -> nn.Module:
        net, options = self.preset.net, self.options()
        if net in ENCODERS:
            return Pyramid(net, up, 1, inputs=4, **options)
        return models.build(net, up, pretrained=self.preset.pretrained, **options)

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """Over the unknown: the error of alpha, and where the layers are known that of the composition."""
        alpha, unknown = batch["alpha"], _unknown(batch)
        found, count = model(_input(batch)).float(), unknown.sum().clamp_min(1)
        loss = (_root(found - alpha) * unknown).sum() / count
        if "fg" not in batch or "bg" not in batch:
            return loss
        composed = found * batch["fg"] + (1 - found) * batch["bg"]
        return (loss + (_root(composed - batch["image"]).mean(1, keepdim=True) * unknown).sum() / count) / 2

    def weight(self, batch: Batch) -> Tensor:
        return _unknown(batch).sum().float()

    def predict(self, model: nn.Module, batch: Batch) -> Tensor:
        """Alpha [B, 1, H, W] in 0 ... 1, which is that of the trimap where it is known."""
        trimap, found = batch["trimap"], model(_input(batch)).clamp(0, 1)
        return torch.where(_unknown(batch), found, trimap.to(found.dtype))

    def metric(self) -> MattingMetric:
        return MattingMetric()

    def update(self, metric: Any, prediction: Tensor, batch: Batch) -> None:
        metric.update(prediction, batch["alpha"], batch["trimap"])

    def inputs(self) -> tuple[Any, ...]:
        return (torch.zeros(1, 4, *self.preset.size),)

    def pictures(self, prediction: Tensor, batch: Batch, i: int) -> Pictures:
        found, truth = prediction[i].float(), batch["alpha"][i]
        error = 1 - (4 * (found - truth).abs()).clamp_max(1)
        image = F.interpolate(batch["image"][i][None], truth.shape[1:], mode="bilinear", align_corners=False)[0]
        grey = {"truth": truth, "trimap": batch["trimap"][i], "prediction": found, "error": error}
        return {"image": image} | {name: map.expand(3, -1, -1) for name, map in grey.items()}


def _input(batch: Batch) -> Tensor:
    return torch.cat([normalise(batch["image"]), batch["trimap"]], 1)  # [B, 4, H, W]


def _unknown(batch: Batch) -> Tensor:
    return (batch["trimap"] > 0) & (batch["trimap"] < 1)


def _root(x: Tensor) -> Tensor:
    """The absolute value, with a slope everywhere."""
    return (x.square() + 1e-12).sqrt()
