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
from sapa.tasks.data.sample import IGNORE, BadSample, Sample, as_image, as_mask, read_pixels, same_size
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
            labels = torch.from_numpy(np.atleast_3d(values)[..., 0].astype(np.int64)) - self.first
            end = IGNORE if self.classes is None else len(self.classes)
            sample["mask"] = as_mask(labels.masked_fill((labels < 0) | (labels >= end), IGNORE))
        elif self.task == "depth":
            scale = self.scale or (1.0 if values.dtype.kind == "f" else 1000.0)
            sample["depth"] = as_depth(values.astype(np.float32) / scale)
        else:
            sample["alpha"] = as_image(np.atleast_3d(values)[..., 0])
            radius = 0.02 * min(image.shape[-2:])
            sample["trimap"] = make_trimap(sample["alpha"], radius, radius)
        return same_size(Path(name), sample, *(key for key in ("mask", "depth", "alpha") if key in sample))

    def _objects(self, objects: dict[str, Any] | list[dict[str, Any]], image: tv_tensors.Image) -> Sample:
        if isinstance(objects, list):
            objects = {key: [each[key] for each in objects] for key in (objects[0] if objects else ())}
        boxes = torch.tensor(objects.get("bbox", ()), dtype=torch.float32).reshape(-1, 4)
        if self.boxes == "xywh":
            boxes = torch.cat([boxes[:, :2], boxes[:, :2] + boxes[:, 2:]], dim=1)
        key = next((key for key in LABELS if key in objects), LABELS[0])
        labels = torch.tensor(objects.get(key, ()), dtype=torch.int64) - self.first
        default = [False] * len(labels)
        size = (image.shape[-2], image.shape[-1])
        area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
        return {
            "boxes": tv_tensors.BoundingBoxes(boxes, format="XYXY", canvas_size=size),  # type: ignore[call-overload]
            "labels": labels,
            "crowd": torch.tensor(objects.get("iscrowd", objects.get("is_crowd", default)), dtype=torch.bool),
            "area": torch.tensor(objects["area"], dtype=torch.float32) if "area" in objects else area,
        }


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
