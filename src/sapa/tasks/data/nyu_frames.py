"""Frames of the labelled set of NYU Depth V2 as single files: image/, depth/, label40/ and lists of their numbers."""

import json
from pathlib import Path

import numpy as np

from sapa.tasks.data.nyu import FOCAL, as_depth, framed
from sapa.tasks.data.pairs import Masks, Pair, names_of
from sapa.tasks.data.sample import IGNORE, Data, Sample, read_image, read_pixels, same_size

TASKS = ("depth", "segmentation")
LABELS = "label40_names.json"
SIGN = f"image/, depth/ and {LABELS}"


def is_here(root: Path) -> bool:
    return (root / LABELS).exists() and (root / "image").is_dir() and (root / "depth").is_dir()


def open_split(task: str, root: Path, split: str) -> Data:
    name = next((name for name in names_of(split) if (root / f"{name}.txt").exists()), None)
    if name is None:
        raise FileNotFoundError(f"{root}: has no {split}.txt with the names of its frames.")
    frames = (root / f"{name}.txt").read_text().split()
    if task == "depth":
        return Frames(root, frames, split)
    labels: dict[str, str] = json.loads((root / LABELS).read_text())
    classes = [labels[key] for key in sorted(labels, key=int)]
    pairs = [Pair(root / "image" / f"{frame}.jpg", root / "label40" / f"{frame}.png") for frame in frames]
    # the last class is mostly what has no label
    return Masks(pairs, classes[:-1], void=(len(classes) - 1, IGNORE))


class Frames(Data):
    """Depth as 8-bit PNG, where metres = (value + 0.5) / 25.51."""

    def __init__(self, root: Path, names: list[str], split: str) -> None:
        super().__init__(names)
        self.root, self.split = root, split

    def __getitem__(self, i: int) -> Sample:
        name = self.names[i]
        path = self.root / "depth" / f"{name}.png"
        metres = (read_pixels(path, "L").astype(np.float32) + 0.5) / 25.51
        image = read_image(self.root / "image" / f"{name}.jpg")
        sample = {"image": image, "depth": as_depth(metres), "focal": FOCAL, "name": name}
        return framed(same_size(path, sample, "depth"), self.split)
