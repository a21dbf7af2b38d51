"""SUN RGB-D as it is downloaded: SUNRGBD/ beside SUNRGBDtoolbox/, with labels of 37 classes and depth."""

from pathlib import Path
from typing import Any

import numpy as np
import torch

from sapa.tasks.data import matlab
from sapa.tasks.data.nyu import as_depth
from sapa.tasks.data.pairs import names_of
from sapa.tasks.data.sample import IGNORE, Data, Sample, as_mask, read_image, read_pixels, same_size

TASKS = ("segmentation", "depth")
SIGN = "SUNRGBD/ and SUNRGBDtoolbox/"
CLASSES = (
    *("wall", "floor", "cabinet", "bed", "chair", "sofa", "table", "door", "window", "bookshelf", "picture", "counter"),
    *(
        "blinds",
        "desk",
        "shelves",
        "curtain",
        "dresser",
        "pillow",
        "mirror",
        "floor mat",
        "clothes",
        "ceiling",
        "books",
    ),
    *(
        "fridge",
        "tv",
        "paper",
        "towel",
        "shower curtain",
        "box",
        "whiteboard",
        "person",
        "night stand",
        "toilet",
        "sink",
    ),
    *("lamp", "bathtub", "bag"),
)
# farther is set to this, as in the toolbox
FARTHEST = 8.0


def is_here(root: Path) -> bool:
    return (root / "SUNRGBD").is_dir() and (root / "SUNRGBDtoolbox").is_dir()


def open_split(task: str, root: Path, split: str) -> "Frames":
    names_of(split)
    return Frames(root, task, split)


class Frames(Data):
    """10 335 frames of four cameras, in the order of SUNRGBDMeta.mat, 5285 of them for training."""

    def __init__(self, root: Path, task: str, split: str) -> None:
        toolbox = root / "SUNRGBDtoolbox"
        (meta,) = matlab.load(toolbox / "Metadata" / "SUNRGBDMeta.mat", "SUNRGBDMeta")
        (train,) = matlab.load(toolbox / "traintestSUNRGBD" / "allsplit.mat", "alltrain")
        trained = {_below(str(path)) for path in train}
        entries = [(place, _below(str(each.rgbpath)), each) for place, each in enumerate(meta)]
        # of rgbpath the last two parts are image/ and the name of the file
        entries = [(place, folder.rsplit("/", 2)[0], each) for place, folder, each in entries]
        chosen = [entry for entry in entries if (entry[1] in trained) == (split == "train")]
        self.entries = [(place, folder, str(each.rgbname), str(each.depthname)) for place, folder, each in chosen]
        super().__init__([folder for _, folder, _, _ in self.entries], CLASSES if task == "segmentation" else None)
        self.root, self.task = root, task
        labels = toolbox / "Metadata" / "SUNRGBD2Dseg.mat"
        self.labels = matlab.Lazy(labels) if task == "segmentation" else None

    def __getitem__(self, i: int) -> Sample:
        place, folder, image, depth = self.entries[i]
        home = self.root / folder
        sample: dict[str, Any] = {"image": read_image(home / "image" / image), "name": folder}
        if self.labels is not None:
            reference = self.labels.read("SUNRGBD2Dseg", "seglabel", place)
            labels = torch.from_numpy(np.asarray(self.labels.read(reference.item())).T.astype(np.int64))
            # 0 is unlabelled
            sample["mask"] = as_mask(torch.where(labels > 0, labels - 1, IGNORE))
            return same_size(home, sample, "mask")
        path = home / "depth_bfx" / depth
        bits = read_pixels(path).astype(np.uint16)
        # they are turned by three bits in the files
        metres = ((bits >> 3) | (bits << 13)).astype(np.float32) / 1000
        sample["depth"] = as_depth(np.minimum(metres, FARTHEST))
        return same_size(path, sample, "depth")


def _below(path: str) -> str:
    """SUNRGBD/kv2/... of a path on the machine it was made on."""
    return path[path.index("SUNRGBD/") :].rstrip("/")
