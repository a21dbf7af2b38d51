"""SUN RGB-D for segmentation without MATLAB: images in two folders, the 37-class labels of both in one."""

import re
from pathlib import Path

from sapa.tasks.data.pairs import Masks, Pair, names_of
from sapa.tasks.data.sample import images_in
from sapa.tasks.data.sunrgbd import CLASSES

TASKS = ("segmentation",)
SIGN = "SUNRGBD-train_images/, SUNRGBD-test_images/ and sunrgbd_train_test_labels/"
LABELS = ("sunrgbd_train_test_labels", "sunrgbd_test_train_labels", "labels")
# labels are numbered through: those of the test images come first
TESTED = 5050


def is_here(root: Path) -> bool:
    return any((root / f"SUNRGBD-{name}_images").is_dir() for name in ("train", "test"))


def open_split(task: str, root: Path, split: str) -> Masks:
    part = "train" if "train" in names_of(split) else "test"
    labels = next((root / name for name in LABELS if (root / name).is_dir()), None)
    if labels is None:
        raise FileNotFoundError(f"{root}: has no {LABELS[0]}/ with the labels, img-000001.png and so on.")
    numbered = {_number(path): path for path in images_in(labels)}
    images = images_in(root / f"SUNRGBD-{part}_images")
    offset = TESTED if part == "train" else 0
    return Masks([Pair(path, numbered.get(_number(path) + offset)) for path in images], CLASSES, first=1, void=(0,))


def _number(path: Path) -> int:
    return int(re.findall(r"\d+", path.stem)[-1])
