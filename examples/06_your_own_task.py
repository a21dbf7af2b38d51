"""A task of your own: find the borders between things. Model, loss, metric and data; the rest is there already.

With this file in the working directory, `sapa compare mymodule:Borders --upsamplers bilinear,sapa_b` does the same.
"""

from pathlib import Path
from typing import ClassVar

import torch.nn.functional as F
from torchmetrics import MetricCollection
from torchmetrics.classification import BinaryAveragePrecision

from sapa.models.imagenet import normalise
from sapa.tables import markdown
from sapa.tasks.compare import compare, table
from sapa.tasks.data import open_data
from sapa.tasks.engine import Machine
from sapa.tasks.nets import Pyramid
from sapa.tasks.presets import QUICK, Preset
from sapa.tasks.spec import parse_all
from sapa.tasks.task import Task


class Borders(Task):
    name = "borders"
    presets: ClassVar = {"quick": Preset(**{**QUICK, "size": (64, 96), "samples": (32, 8), "epochs": 2.0})}
    shown = ("AP",)

    @classmethod
    def data(cls, preset, path, split):
        return open_data("segmentation", path, split, **cls.built_in(preset, path, split))

    def augment(self, is_training):
        return lambda sample, generator: sample

    def model(self, up):
        return Pyramid("quick", up, outputs=1, stride=2)

    def loss(self, model, batch):
        return F.binary_cross_entropy_with_logits(model(normalise(batch["image"])), borders(batch["mask"]))

    def predict(self, model, batch):
        return model(normalise(batch["image"])).sigmoid()

    def metric(self):
        return MetricCollection({"AP": BinaryAveragePrecision(thresholds=100)})

    def update(self, metric, prediction, batch):
        metric.update(prediction, borders(batch["mask"]).long())


def borders(mask):
    """1 where the pixel to the right or below is another class: [B, H, W] to [B, 1, H, W]."""
    right = F.pad(mask[:, :, 1:] != mask[:, :, :-1], (0, 1))
    below = F.pad(mask[:, 1:] != mask[:, :-1], (0, 0, 0, 1))
    return (right | below).float()[:, None]


if __name__ == "__main__":
    found = compare(
        Borders,
        Borders.presets["quick"],
        parse_all("bilinear,sapa_g"),
        seeds=[0],
        folder=Path("runs/06"),
        machine=Machine(workers=0),
    )
    print(markdown(table(found)))
