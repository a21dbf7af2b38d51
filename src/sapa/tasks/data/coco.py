"""Boxes as COCO writes them: instances_*.json beside or above the images, for COCO itself and any set like it."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sapa.tasks.data.pairs import names_of
from sapa.tasks.data.sample import BadSample, Data, Sample, as_objects, read_image

TASKS = ("detection",)
SIGN = "instances_*.json, or such files in annotations/"


def is_here(root: Path) -> bool:
    return bool(_files(root))


def open_split(task: str, root: Path, split: str) -> "Boxes":
    files = _files(root)
    named = [file for name in names_of(split) for file in files if file.stem.startswith(f"instances_{name}")]
    if not named:
        raise FileNotFoundError(f"{root}: has no instances_{split}*.json; there is {', '.join(f.name for f in files)}.")
    folder = named[0].stem.removeprefix("instances_")
    places = (root / folder, root / "images" / folder, root / "images", root)
    images = next(place for place in places if place.is_dir())
    # a picture without objects teaches a detector nothing, but may be mistaken in evaluation
    return Boxes(named[0], images, keeps_empty=split != "train")


def _files(root: Path) -> list[Path]:
    return sorted(root.glob("instances_*.json")) or sorted(root.glob("annotations/instances_*.json"))


class Boxes(Data):
    """Boxes by image. Categories become labels 0, 1, ... in the order of their ids.

    Args:
        file: in the format of COCO.
        images: the folder that file names are in.
        keeps_empty: images without objects, too.
    """

    def __init__(self, file: Path, images: Path, *, keeps_empty: bool = True) -> None:
        try:
            found = json.loads(file.read_text())
            categories = sorted(found["categories"], key=lambda category: category["id"])
            labels = {category["id"]: i for i, category in enumerate(categories)}
            self.objects: dict[int, np.ndarray] = _by_image(found["annotations"], labels)
            self.images = [image for image in found["images"] if keeps_empty or len(self.objects.get(image["id"], ()))]
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{file}: is broken, or not in the format of COCO: {error!r}") from error
        super().__init__([image["file_name"] for image in self.images], [category["name"] for category in categories])
        self.file, self.folder = file, images

    def __getitem__(self, i: int) -> Sample:
        about = self.images[i]
        path = self.folder / about["file_name"]
        image = read_image(path)
        H, W = image.shape[-2:]
        if (about.get("height", H), about.get("width", W)) != (H, W):
            said = (about["height"], about["width"])
            raise BadSample(f"{path}: is {(H, W)} (H W), and {self.file.name} says {said}: boxes would not fit.")
        rows = torch.from_numpy(self.objects.get(about["id"], np.zeros((0, 7), np.float32)))
        objects = as_objects(rows[:, :4], rows[:, 4].long(), rows[:, 5].bool(), rows[:, 6], (H, W))
        return {"image": image, **objects, "image_id": int(about["id"]), "name": self.names[i]}


def _by_image(annotations: list[dict[str, Any]], labels: dict[int, int]) -> dict[int, np.ndarray]:
    """Rows of box, label, crowd and area [N, 7] for each image: COCO's 860 000 dicts would go to every worker."""
    found: dict[int, list[tuple[float, ...]]] = {}
    for each in annotations:
        x, y, w, h = each["bbox"]
        row = (x, y, x + w, y + h, labels[each["category_id"]], each.get("iscrowd", 0), each.get("area", w * h))
        found.setdefault(each["image_id"], []).append(row)
    return {image: np.array(rows, np.float32) for image, rows in found.items()}
