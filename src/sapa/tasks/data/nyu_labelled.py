"""The labelled set of NYU Depth V2 as it is downloaded: nyu_depth_v2_labeled.mat, with splits.mat beside it."""

from pathlib import Path

from sapa.tasks.data import matlab
from sapa.tasks.data.nyu import FOCAL, as_depth, framed
from sapa.tasks.data.pairs import names_of
from sapa.tasks.data.sample import Data, Sample, as_image

TASKS = ("depth",)
SIGN = "nyu_depth_v2_labeled.mat"


def is_here(root: Path) -> bool:
    return root.name == SIGN or (root / SIGN).exists()


def open_split(task: str, root: Path, split: str) -> "Labelled":
    names_of(split)
    return Labelled(root if root.name == SIGN else root / SIGN, split)


class Labelled(Data):
    """1449 frames with depth filled in, 795 of them for training."""

    def __init__(self, file: Path, split: str) -> None:
        (numbers,) = matlab.load(file.with_name("splits.mat"), "trainNdxs" if split == "train" else "testNdxs")
        self.numbers = [int(number) for number in numbers]  # from 1
        super().__init__([f"{number:04}" for number in self.numbers])
        self.file, self.split = matlab.Lazy(file), split

    def __getitem__(self, i: int) -> Sample:
        place = self.numbers[i] - 1
        # MATLAB counts columns first: [N, 3, W, H] and [N, W, H]
        pixels = self.file.read("images", place).transpose(2, 1, 0)
        metres = self.file.read("depths", place).T
        sample = {"image": as_image(pixels), "depth": as_depth(metres), "focal": FOCAL, "name": self.names[i]}
        return framed(sample, self.split)
