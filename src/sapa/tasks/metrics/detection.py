"""Average precision of boxes as COCO defines it, computed by pycocotools."""

from collections.abc import Sequence
from contextlib import redirect_stdout
from io import StringIO
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torchmetrics import Metric

NAMES = ("AP", "AP50", "AP75", "APs", "APm", "APl")


class DetectionMetric(Metric):
    """AP over IoU 0.50 to 0.95, at 0.50 and 0.75, and of small, medium and large objects, in percent.

    Precision needs all detections in order of their scores, so that this one keeps them: eight numbers each. They are
    put in the order of their images first, which makes the result the same for any number of processes. What has no
    object at all, as a size or a class, is NaN and in no mean.

    Args:
        classes: their names, or how many there are.
    """

    main = "AP"
    higher = True
    full_state_update = False
    images: list[Tensor]
    objects: list[Tensor]
    detections: list[Tensor]

    def __init__(self, classes: int | Sequence[str]) -> None:
        super().__init__()
        self.names = [str(i) for i in range(classes)] if isinstance(classes, int) else list(classes)
        for name in ("images", "objects", "detections"):
            self.add_state(name, [], dist_reduce_fx="cat")

    def update(self, predictions: Sequence[dict[str, Tensor]], targets: Sequence[dict[str, Any]]) -> None:
        """Boxes are xyxy in the pixels of the same image; targets have an image_id, and crowd and area where known."""
        for found, truth in zip(predictions, targets, strict=True):
            boxes = truth["boxes"].as_subclass(Tensor).double()
            area = truth.get("area", (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1]))
            crowd = truth.get("crowd", torch.zeros(len(boxes), device=boxes.device))
            image = int(truth["image_id"])
            self.images.append(torch.tensor([image], device=self.device))
            self.objects.append(rows(image, truth["labels"], crowd, area, boxes).to(self.device))
            self.detections.append(
                rows(image, found["labels"], found["scores"], found["scores"], found["boxes"]).to(self.device)
            )

    def _sync_dist(self, *args: Any, **options: Any) -> None:
        # a process that saw no image has nothing to send, but in the shape of the others
        if not self.images:
            self.images.append(torch.zeros(0, dtype=torch.int64, device=self.device))
            for state in (self.objects, self.detections):
                state.append(torch.zeros(0, 8, dtype=torch.float64, device=self.device))
        super()._sync_dist(*args, **options)

    def compute(self) -> dict[str, float]:
        if not len(self.images):
            return dict.fromkeys((*NAMES, *(f"AP {name}" for name in self.names)), float("nan"))
        images, objects, detections = (joined(state) for state in (self.images, self.objects, self.detections))
        precision = evaluate(images, objects, detections, len(self.names))  # [T, R, K, A, M]
        whole = precision[..., 0, -1]
        means = (whole, whole[0], whole[5], *(precision[..., area, -1] for area in (1, 2, 3)))
        each = {f"AP {name}": mean(whole[..., i]) for i, name in enumerate(self.names)}
        return dict(zip(NAMES, map(mean, means), strict=True)) | each


def rows(image: int, labels: Tensor, first: Tensor, second: Tensor, boxes: Tensor) -> Tensor:
    """[N, 8]: image, label, two numbers, box."""
    columns = [torch.full_like(labels, image), labels, first, second, *boxes.as_subclass(Tensor).unbind(1)]
    return torch.stack([column.as_subclass(Tensor).double() for column in columns], dim=1)


def joined(state: Tensor | list[Tensor]) -> np.ndarray:
    whole = state if isinstance(state, Tensor) else torch.cat(state)
    return whole.cpu().numpy()


def mean(precision: np.ndarray) -> float:
    """In percent; -1 marks what has no object."""
    found = precision[precision > -1]
    return 100 * float(found.mean()) if found.size else float("nan")


def evaluate(images: np.ndarray, objects: np.ndarray, detections: np.ndarray, classes: int) -> np.ndarray:
    """Precision by threshold, recall, class, size and number of detections."""
    try:
        from pycocotools.coco import COCO
        from pycocotools.cocoeval import COCOeval
    except ModuleNotFoundError as missing:
        text = "COCO's metrics need pycocotools: pip install 'sapa[tasks]'"
        raise ModuleNotFoundError(text, name=missing.name) from missing
    ids = {int(image): i + 1 for i, image in enumerate(np.unique(images))}

    def annotations(table: np.ndarray, first: str, second: str) -> list[dict[str, Any]]:
        found = []
        # ids count from 1: the tools take 0 for no match
        for i, (image, label, one, two, x, y, right, bottom) in enumerate(table.tolist(), 1):
            box = {"bbox": [x, y, right - x, bottom - y], "category_id": int(label), "image_id": ids[int(image)]}
            found.append({"id": i, **box, first: one, second: two})
        return found

    with redirect_stdout(StringIO()):  # the tools print their progress
        truth: Any = COCO()
        found: Any = COCO()
        shared = {"images": [{"id": i} for i in ids.values()], "categories": [{"id": i} for i in range(classes)]}
        truth.dataset = shared | {"annotations": annotations(objects, "iscrowd", "area")}
        boxes = annotations(detections, "score", "area")
        for box in boxes:
            box["area"] = box["bbox"][2] * box["bbox"][3]
        found.dataset = shared | {"annotations": boxes}
        truth.createIndex()
        found.createIndex()
        run = COCOeval(truth, found, "bbox")
        run.evaluate()
        run.accumulate()
    return run.eval["precision"]
