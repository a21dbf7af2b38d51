"""Object detection: a box and a class for every object."""

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from sapa import models
from sapa.complexity import multiply_accumulates
from sapa.models.fit import Up
from sapa.tasks.metrics import DetectionMetric
from sapa.tasks.nets import ENCODERS
from sapa.tasks.sampling import detection_loss, seed_boxes
from sapa.tasks.task import Batch, Pictures, Sample, Task

WIDTH = 64
SURE = 0.5  # the least score of a box that is drawn


class Detection(Task):
    name = "detection"
    shown = ("AP", "AP50", "AP75")

    def augment(self, is_training: bool) -> Any:
        from sapa.tasks.data.augment import augment

        if is_training:
            return partial(_with_seed, super().augment(True))
        # as it is, since the model itself changes the size, and its boxes back
        return augment(self.name, train=False, evaluate="whole")

    def model(self, up: Up) -> nn.Module:
        if self.classes is None:
            raise ValueError("detection needs the classes of its data, and this has none.")
        (H, W), net = self.preset.size, self.preset.net
        options = {"min_size": min(H, W), "max_size": max(H, W), **self.options()}
        if net in ENCODERS:
            return seed_boxes(small_detector(net, up, len(self.classes), **options))
        whole = models.build(net, up, num_classes=len(self.classes), pretrained=self.preset.pretrained, **options)
        return seed_boxes(whole)

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        targets = []
        for boxes, labels, crowd in zip(batch["boxes"], batch["labels"], batch["crowd"], strict=True):
            # a crowd is no object to learn; label 0 is the background
            targets.append({"boxes": boxes[~crowd], "labels": labels[~crowd] + 1})
        return detection_loss(model, list(batch["image"]), targets, batch["seed"])

    def predict(self, model: nn.Module, batch: Batch) -> list[dict[str, Tensor]]:
        return [{**found, "labels": found["labels"] - 1} for found in model(list(batch["image"]))]

    def metric(self) -> DetectionMetric:
        return DetectionMetric(self.classes or ())

    def update(self, metric: Any, prediction: list[dict[str, Tensor]], batch: Batch) -> None:
        keys = [key for key in ("boxes", "labels", "crowd", "area", "image_id") if key in batch]
        metric.update(prediction, [{key: batch[key][i] for key in keys} for i in range(len(prediction))])

    def evaluation_batch(self) -> int:
        return self.preset.batch

    def macs(self, model: nn.Module) -> int:
        # of the backbone with its pyramid: what follows depends on how many boxes it finds
        return multiply_accumulates(model.backbone, torch.zeros(1, 3, *self.preset.size))  # type: ignore[arg-type]

    def pictures(self, prediction: list[dict[str, Tensor]], batch: Batch, i: int) -> Pictures:
        image, found = batch["image"][i], prediction[i]
        sure = found["scores"] >= SURE
        return {
            "image": image,
            "truth": _drawn(image, batch["boxes"][i], batch["labels"][i]),
            "prediction": _drawn(image, found["boxes"][sure], found["labels"][sure]),
        }


def _with_seed(augment: Any, sample: Sample, generator: torch.Generator) -> Sample:
    """With a number for all that is drawn from this picture later on."""
    sample = augment(sample, generator)
    return {**sample, "seed": int(torch.randint(2**62, (), generator=generator))}


def small_detector(net: str, up: Up, classes: int, **options: Any) -> nn.Module:
    """Faster R-CNN as in torchvision, on the encoder of a small net, with a narrow pyramid and head."""
    from torchvision.models.detection import FasterRCNN
    from torchvision.models.detection.anchor_utils import AnchorGenerator
    from torchvision.models.detection.faster_rcnn import FastRCNNPredictor, TwoMLPHead
    from torchvision.ops import MultiScaleRoIAlign

    backbone = Backbone(net, up)
    levels = len(backbone.fpn.inner_blocks) + 1
    anchors = AnchorGenerator(tuple((12 * 2**i,) for i in range(levels)), ((0.5, 1.0, 2.0),) * levels)
    return FasterRCNN(
        backbone,
        rpn_anchor_generator=anchors,
        box_roi_pool=MultiScaleRoIAlign([str(i) for i in range(levels - 1)], 7, 2),
        box_head=TwoMLPHead(WIDTH * 49, 256),
        box_predictor=FastRCNNPredictor(256, classes + 1),
        **{
            "rpn_pre_nms_top_n_train": 500,
            "rpn_pre_nms_top_n_test": 300,
            "rpn_post_nms_top_n_train": 300,
            "rpn_post_nms_top_n_test": 150,
            "box_batch_size_per_image": 128,
            **options,
        },
    )


class Backbone(nn.Module):
    """The encoder and a feature pyramid, whose steps are the upsamplers."""

    out_channels = WIDTH

    def __init__(self, net: str, up: Up) -> None:
        from torchvision.ops import FeaturePyramidNetwork
        from torchvision.ops.feature_pyramid_network import LastLevelMaxPool

        from sapa.models.faster_rcnn import FPN

        super().__init__()
        self.encoder = ENCODERS[net]()
        plain = FeaturePyramidNetwork(list(self.encoder.channels[1:]), WIDTH, LastLevelMaxPool())
        self.fpn = FPN(plain, up)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        maps = self.encoder(x)[1:]  # from 1/4 of the size on
        return self.fpn({str(i): map for i, map in enumerate(maps)})


def _drawn(image: Tensor, boxes: Tensor, labels: Tensor) -> Tensor:
    from torchvision.utils import draw_bounding_boxes

    from sapa.tasks.pictures import COLOURS

    if len(boxes) == 0:
        return image
    colours: Any = [tuple(int(part) for part in COLOURS[int(label) % len(COLOURS)]) for label in labels]
    width = max(1, round(max(image.shape[1:]) / 200))
    return draw_bounding_boxes((image * 255).round().byte(), boxes, colors=colours, width=width).float() / 255
