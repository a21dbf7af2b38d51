"""What the three layouts of NYU Depth V2 share: the parts of a frame that are trained and evaluated on."""

import numpy as np
import torch
from torch import Tensor
from torchvision import tv_tensors

from sapa.tasks.data.geometry import crop
from sapa.tasks.data.sample import Sample

FRAME = (480, 640)
# (top, left, bottom, right) of what BTS trains on, where both cameras see, and of what everybody evaluates on: Eigen's
TRAINED, EVALUATED = (45, 43, 472, 608), (45, 41, 471, 601)
VIEW = (45, 41, 472, 606)  # as large as what is trained on, with all of what is evaluated
FOCAL = 518.8579


def framed(sample: Sample, split: str) -> Sample:
    """The part to train on; or all of it, with depth known only where it is evaluated. Who evaluates at one size takes
    the view: distances are told by how large things look, and so only at the zoom of the training."""
    if tuple(sample["image"].shape[-2:]) != FRAME:
        return sample
    if split == "train":
        return crop(sample, *_placed(TRAINED))
    top, left, bottom, right = EVALUATED
    inside = torch.zeros(1, *FRAME)
    inside[:, top:bottom, left:right] = 1
    depth = tv_tensors.Mask(sample["depth"].as_subclass(Tensor) * inside)
    return sample | {"depth": depth, "view": _placed(VIEW)}


def _placed(box: tuple[int, int, int, int]) -> tuple[int, int, tuple[int, int]]:
    """As `crop` takes it."""
    top, left, bottom, right = box
    return top, left, (bottom - top, right - left)


def as_depth(metres: np.ndarray) -> tv_tensors.Mask:
    """[H, W] as [1, H, W]."""
    return tv_tensors.Mask(torch.from_numpy(np.ascontiguousarray(metres, np.float32))[None])
