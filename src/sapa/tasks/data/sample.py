"""One sample: a dict of an image and what is known about it, as every data set gives it."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import Dataset
from torchvision import tv_tensors

# "image" Image float32 [3, H, W] in 0..1 · "mask" Mask int64 [H, W] · "boxes" BoundingBoxes float32 [N, 4] xyxy, with
# "labels" int64 [N], "crowd" bool [N], "area" float32 [N] and "image_id" · "depth" Mask float32 [1, H, W] in metres, or
# 0 · "alpha" Image float32 [1, H, W], "trimap" Mask float32 [1, H, W] of 0, 0.5 and 1, and for composites "fg" and "bg"
# like the image · "view" (top, left, size) of what is evaluated at one size · "name"
Sample = dict[str, Any]

IGNORE = 255
SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".ppm", ".tif", ".tiff", ".webp")


class BadSample(ValueError):
    """A sample that cannot be read; the message begins with its file. One argument, so that it passes from workers."""


class Data(Dataset[Sample], ABC):
    """Samples by their place.

    Args:
        names: one for each sample.
        classes: what labels count, or None where there are none.
    """

    def __init__(self, names: Sequence[str], classes: Sequence[str] | None = None) -> None:
        self.names = list(names)
        self.classes = None if classes is None else list(classes)

    def __len__(self) -> int:
        return len(self.names)

    @abstractmethod
    def __getitem__(self, i: int) -> Sample: ...


def read_pixels(file: Path | BinaryIO, mode: str | None = None, name: str | None = None) -> np.ndarray:
    """[H, W] or [H, W, c] as in the file; a palette gives its indices. With a mode of Pillow, in that."""
    try:
        with Image.open(file) as image:
            return np.asarray(image if mode is None or image.mode == mode else image.convert(mode))
    except FileNotFoundError as error:
        raise BadSample(f"{name or file}: there is no such file.") from error
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise BadSample(f"{name or file}: is broken, or no image: {error}") from error


def read_image(path: Path) -> tv_tensors.Image:
    return as_image(read_pixels(path, "RGB"))


def as_image(pixels: np.ndarray) -> tv_tensors.Image:
    """[H, W, 3] or [H, W] of bytes as [3, H, W] or [1, H, W] in 0..1."""
    planes = pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)
    return tv_tensors.Image(torch.from_numpy(np.ascontiguousarray(planes)).float().div_(255))


def read_mask(path: Path) -> Tensor:
    """Labels as in the file, int64 [H, W]."""
    pixels = read_pixels(path)
    if pixels.ndim == 3:
        if not (pixels == pixels[..., :1]).all():
            raise BadSample(
                f"{path}: has colours, and a mask must be grey or have a palette: one label for each pixel."
            )
        pixels = pixels[..., 0]
    return torch.from_numpy(pixels.astype(np.int64))


def as_mask(labels: Tensor) -> tv_tensors.Mask:
    return tv_tensors.Mask(labels)


def read_grey(path: Path) -> tv_tensors.Image:
    """An alpha or trimap of 8 or 16 bits as [1, H, W] in 0..1."""
    return as_grey(read_pixels(path))


def as_grey(pixels: np.ndarray) -> tv_tensors.Image:
    values = pixels[..., 0] if pixels.ndim == 3 else pixels
    top = 65535 if values.dtype in (np.uint16, np.int32) else 1 if values.dtype == np.bool_ else 255
    return tv_tensors.Image(torch.from_numpy(values.astype(np.float32))[None] / top)


def as_trimap(grey: Tensor) -> tv_tensors.Mask:
    """0, 0.5 and 1 from a picture of three greys."""
    return tv_tensors.Mask(torch.where(grey < 0.1, 0.0, torch.where(grey > 0.9, 1.0, 0.5)))


def as_objects(boxes: Tensor, labels: Tensor, crowd: Tensor, area: Tensor, size: tuple[int, int]) -> Sample:
    """Boxes xyxy [N, 4] cut to a picture of a size, without those of which nothing is left."""
    H, W = size
    boxes = boxes.clamp(min=0).minimum(torch.tensor([W, H, W, H]))
    is_box = (boxes[:, 2] > boxes[:, 0]) & (boxes[:, 3] > boxes[:, 1])
    return {
        "boxes": tv_tensors.BoundingBoxes(boxes[is_box], format="XYXY", canvas_size=size),  # type: ignore[call-overload]
        "labels": labels[is_box],
        "crowd": crowd[is_box],
        "area": area[is_box],
    }


def same_size(path: Path, sample: Sample, *keys: str) -> Sample:
    """The sample itself, if all of it has the size of its image."""
    expected = tuple(sample["image"].shape[-2:])
    for key in keys:
        found = tuple(sample[key].shape[-2:])
        if found != expected:
            raise BadSample(f"{path}: is {found} (H W), and its image is {expected}.")
    return sample


def images_in(folder: Path) -> list[Path]:
    """The images of a folder in order; hidden ones are not meant."""
    if not folder.is_dir():
        return []
    return sorted(f for f in folder.iterdir() if f.suffix.lower() in SUFFIXES and not f.name.startswith("."))
