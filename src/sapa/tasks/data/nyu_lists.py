"""NYU Depth V2 as BTS has it: lists of `image depth focal`, with the frames in sync/ and official_splits/test/."""

from pathlib import Path

import numpy as np

from sapa.tasks.data.nyu import FOCAL, as_depth, framed
from sapa.tasks.data.pairs import names_of
from sapa.tasks.data.sample import BadSample, Data, Sample, read_image, read_pixels, same_size

TASKS = ("depth",)
SIGN = "*_files_with_gt.txt (the lists of BTS), here or in train_test_inputs/"


def is_here(root: Path) -> bool:
    return bool(_files(root))


def open_split(task: str, root: Path, split: str) -> "Lists":
    named = [file for name in names_of(split) for file in _files(root) if f"{name}_files" in file.name]
    if not named:
        raise FileNotFoundError(f"{root}: has no *{split}_files_with_gt.txt.")
    places = ("sync", "") if split == "train" else ("official_splits/test", "test", "")
    return Lists(named[0], [root / place for place in places], split)


def _files(root: Path) -> list[Path]:
    found = [*root.glob("*_files_with_gt.txt"), *root.glob("train_test_inputs/*_files_with_gt.txt")]
    # BTS has lists of KITTI in the same folder
    return sorted(found, key=lambda file: ("nyu" not in file.name, file))


class Lists(Data):
    """Depth in millimetres as 16-bit PNG.

    Args:
        file: with a line for each frame; a depth of None is missing.
        roots: folders that the names may be below, tried in this order.
        split: says which part of a frame is used.
    """

    def __init__(self, file: Path, roots: list[Path], split: str) -> None:
        self.lines = [line.split() for line in file.read_text().splitlines() if line.strip()]
        for number, line in enumerate(self.lines, start=1):
            if len(line) < 2:
                raise ValueError(f"{file}: line {number} is not `image depth focal`: {' '.join(line)!r}.")
        super().__init__([line[0].lstrip("/") for line in self.lines])
        self.roots, self.split = roots, split

    def __getitem__(self, i: int) -> Sample:
        line = self.lines[i]
        source = self._find(line[0])
        image = read_image(source)
        if line[1] == "None":
            raise BadSample(f"{source}: has no annotation: its line says None.")
        path = self._find(line[1])
        values = read_pixels(path)
        if values.dtype == np.uint8:
            raise BadSample(f"{path}: has 8 bits, and depth in millimetres needs 16.")
        focal = float(line[2]) if len(line) > 2 else FOCAL
        sample = {"image": image, "depth": as_depth(values / np.float32(1000)), "focal": focal, "name": self.names[i]}
        return framed(same_size(path, sample, "depth"), self.split)

    def _find(self, name: str) -> Path:
        places = [root / name.lstrip("/") for root in self.roots]
        return next((place for place in places if place.exists()), places[0])
