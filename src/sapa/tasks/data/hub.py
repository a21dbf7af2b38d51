"""Sets of the Hugging Face hub, streamed: for what does not fit a disk."""

from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import IterableDataset
from torchvision import tv_tensors

from sapa.tasks.data.nyu import as_depth
from sapa.tasks.data.pairs import names_of
from sapa.tasks.data.sample import (
    IGNORE,
    BadSample,
    Sample,
    as_grey,
    as_image,
    as_mask,
    as_objects,
    read_pixels,
    same_size,
)
from sapa.tasks.data.trimap import make_trimap

PREFIX = "hub:"
IMAGES = ("image", "img", "photo", "rgb")
# what columns are called; the first that is there counts
COLUMNS = {
    "segmentation": ("annotation", "mask", "label", "labels", "semantic_mask", "segmentation"),
    "detection": ("objects", "annotations"),
    "depth": ("depth_map", "depth"),
    "matting": ("alpha", "matte", "mask"),
}
LABELS = ("category", "category_id", "label", "labels")


class Hub(IterableDataset[Sample]):
    """Samples one after the other, without a length; each worker of a loader takes its share of the files.

    Its iterator goes on after a sample that is broken: one that raised BadSample may be asked for the next.

    Args:
        task: segmentation, detection, depth or matting.
        name: of a set on the hub, or a folder of parquet files; NAME:CONFIG where it has several.
        split: train, val or test, by whatever of these names the set has.
        image: the column of the images; found by its name if it is not given.
        target: the column of masks, objects, depths or mattes.
        classes: their names with commas, where the set does not say.
        first: the label of the first class; those below it are ignored.
        scale: what a depth of one metre is; floats are metres and integers millimetres if it is not given.
        boxes: xywh, as COCO has them, or xyxy.
        shuffle: how many samples to shuffle among. 0 keeps their order.
        take: no more than so many. 0 takes all.
        seed: of the shuffling.
    """

    def __init__(
        self,
        task: str,
        name: str,
        split: str,
        *,
        image: str | None = None,
        target: str | None = None,
        classes: str | None = None,
        first: int = 0,
        scale: float | None = None,
        boxes: str = "xywh",
        shuffle: int = 0,
        take: int = 0,
        seed: int = 0,
    ) -> None:
        self.task, self.name, self.first, self.boxes = task, name, int(first), boxes
        self.scale = None if scale is None else float(scale)
        stream = _stream(name, split)
        features = stream.features or stream._resolve_features().features
        self.image = _column(name, "image", image, IMAGES, features)
        self.target = _column(name, "target", target, COLUMNS[task], features)
        self.classes = classes.split(",") if classes else _classes(task, features[self.target])
        stream = _undecoded(stream.select_columns(list(dict.fromkeys((self.image, self.target)))), features)
        stream = stream.shuffle(seed=int(seed), buffer_size=int(shuffle)) if int(shuffle) else stream
        self.stream = stream.take(int(take)) if int(take) else stream

    def set_epoch(self, epoch: int) -> None:
        """So that each epoch has an order of its own."""
        self.stream.set_epoch(epoch)

    def __iter__(self) -> Iterator[Sample]:
        return map(self._sample, enumerate(self.stream))

    def _sample(self, numbered: tuple[int, dict[str, Any]]) -> Sample:
        i, row = numbered
        name = f"{self.name} {i}"
        try:
            image = as_image(_pixels(row[self.image], f"{name} {self.image}", "RGB"))
            sample: Sample = {"image": image, "name": name}
            if row[self.target] is None:
                raise BadSample(f"{name}: has no annotation: {self.target} is empty.")
            if self.task == "detection":
                return sample | self._objects(row[self.target], image) | {"image_id": i}
            values = _pixels(row[self.target], f"{name} {self.target}")
        except (KeyError, TypeError, ValueError) as error:
            raise error if isinstance(error, BadSample) else BadSample(f"{name}: cannot be read: {error!r}") from error
        if self.task == "segmentation":
            sample["mask"] = as_mask(self._labels(values, name))
        elif self.task == "depth":
            scale = self.scale or (1.0 if values.dtype.kind == "f" else 1000.0)
            sample["depth"] = as_depth(values.astype(np.float32) / scale)
        else:
            sample["alpha"] = as_grey(values)
            radius = 0.02 * min(image.shape[-2:])
            sample["trimap"] = make_trimap(sample["alpha"], radius, radius)
        return same_size(Path(name), sample, *(key for key in ("mask", "depth", "alpha") if key in sample))

    def _labels(self, values: np.ndarray, name: str) -> torch.Tensor:
        planes = np.atleast_3d(values)
        if not (planes == planes[..., :1]).all():
            raise BadSample(f"{name}: has colours, and a mask must be grey or have a palette.")
        labels = torch.from_numpy(planes[..., 0].astype(np.int64))
        is_void = (labels < self.first) | (labels == IGNORE)
        labels = (labels - self.first).masked_fill(is_void, IGNORE)
        end = IGNORE if self.classes is None else len(self.classes)
        if (highest := int(labels.masked_fill(is_void, 0).max())) >= end:
            raise BadSample(
                f"{name}: has the label {highest + self.first}, and there are {end} classes from {self.first} on; "
                f"{IGNORE} is ignored."
            )
        return labels

    def _objects(self, objects: dict[str, Any] | list[dict[str, Any]], image: tv_tensors.Image) -> Sample:
        if isinstance(objects, list):
            objects = {key: [each[key] for each in objects] for key in (objects[0] if objects else ())}
        boxes = torch.tensor(objects.get("bbox", ()), dtype=torch.float32).reshape(-1, 4)
        if self.boxes == "xywh":
            boxes = torch.cat([boxes[:, :2], boxes[:, :2] + boxes[:, 2:]], dim=1)
        key = next((key for key in LABELS if key in objects), LABELS[0])
        labels = torch.tensor(objects.get(key, ()), dtype=torch.int64) - self.first
        if self.classes is not None and not ((labels >= 0) & (labels < len(self.classes))).all():
            wrong = int(labels.max() if labels.max() >= len(self.classes) else labels.min()) + self.first
            raise ValueError(f"the label {wrong} is none of {len(self.classes)} classes from {self.first} on")
        default = [False] * len(labels)
        area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
        area = torch.tensor(objects["area"], dtype=torch.float32) if "area" in objects else area
        crowd = torch.tensor(objects.get("iscrowd", objects.get("is_crowd", default)), dtype=torch.bool)
        return as_objects(boxes, labels, crowd, area, (image.shape[-2], image.shape[-1]))


def _stream(name: str, split: str) -> Any:
    try:
        import datasets
    except ModuleNotFoundError as missing:
        raise ModuleNotFoundError("streaming needs datasets: pip install 'sapa[tasks]'", name="datasets") from missing
    path, _, config = name.partition(":")
    known = datasets.get_dataset_split_names(path, config or None)
    found = next((each for each in names_of(split) if each in known), None)
    if found is None:
        raise ValueError(f"{PREFIX}{name}: has no {split}; there is {', '.join(map(str, known))}.")
    return datasets.load_dataset(path, config or None, split=found, streaming=True)


def _column(name: str, what: str, given: str | None, usual: tuple[str, ...], features: dict[str, Any]) -> str:
    found = next((column for column in ((given,) if given else usual) if column in features), None)
    if found is None:
        raise ValueError(
            f"{PREFIX}{name}: which column is the {what}? There is {', '.join(features)}; looked for "
            f"{given or ', '.join(usual)}. Say {PREFIX}{name}?{what}=COLUMN."
        )
    return found


def _classes(task: str, feature: Any) -> list[str] | None:
    """Those of a ClassLabel, wherever in the lists and dicts of a feature it is."""
    if task not in ("segmentation", "detection"):
        return None
    if isinstance(feature, dict):
        found = (_classes(task, feature[key]) for key in LABELS if key in feature)
        return next((names for names in found if names), None)
    return getattr(feature, "names", None) or (_classes(task, feature.feature) if hasattr(feature, "feature") else None)


def _undecoded(stream: Any, features: dict[str, Any]) -> Any:
    """Images as bytes: a broken one is then one sample's trouble, not the end of the stream."""
    from datasets import Image

    for column, feature in features.items():
        if isinstance(feature, Image) and column in stream.column_names:
            stream = stream.cast_column(column, Image(decode=False))
    return stream


def _pixels(value: Any, name: str, mode: str | None = None) -> np.ndarray:
    if isinstance(value, dict) and ("bytes" in value or "path" in value):
        if value.get("bytes") is None:
            return read_pixels(Path(value["path"]), mode)
        return read_pixels(BytesIO(value["bytes"]), mode, name=name)
    return np.asarray(value)
