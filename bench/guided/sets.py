"""Pictures with a map of full size each: what is shrunk, lifted again, and compared."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor

MULTIPLE = 16  # sizes are cut to it, so that every scale divides them
CLASSES, VOID = 12, 11  # of CamVid
NYU_STEP, CAMVID_STEP = 2, 4  # frames of a video look alike


@dataclass(frozen=True)
class Example:
    photo: Tensor  # uint8 [1, 3, H, W]
    truth: Tensor  # [1, 1, H, W]: NaN where it is not known; classes as integers

    @property
    def is_labels(self) -> bool:
        return not self.truth.is_floating_point()

    def shrunk(self, scale: int) -> Tensor:
        """The mean of the known points of each cell, or its most frequent class."""
        if self.is_labels:
            shares = F.avg_pool2d((self.truth == torch.arange(CLASSES)[:, None, None]).float(), scale)
            return shares.argmax(1, keepdim=True)
        is_known = ~self.truth.isnan()
        total, count = (F.avg_pool2d(x, scale) for x in (self.truth.nan_to_num(), is_known.float()))
        return total / count  # 0 / 0 where nothing is known


def motorcycle(_: Path) -> Iterator[Example]:
    """Disparity in pixels; comes with scikit-image."""
    from skimage import data

    left, _, disparity = data.stereo_motorcycle()
    yield example(left, np.where(np.isfinite(disparity), disparity, np.nan))


def nyu(root: Path) -> Iterator[Example]:
    """Depth in metres, of the official test frames, inside the usual crop."""
    crop = np.s_[45:471, 41:601]
    for name in (root / "nyu" / "test.txt").read_text().split()[::NYU_STEP]:
        depth = (np.asarray(Image.open(root / "nyu" / "depth" / f"{name}.png"), np.float32) + 0.5) / 25.51
        yield example(np.asarray(Image.open(root / "nyu" / "image" / f"{name}.jpg"))[crop], depth[crop])


def matting(root: Path) -> Iterator[Example]:
    """The alpha of hair, fur and glass."""
    for path in sorted((root / "matting" / "alpha").glob("*.png")):
        alpha = np.asarray(Image.open(path).convert("L"), np.float32) / 255
        yield example(np.asarray(Image.open(root / "matting" / "image" / path.name).convert("RGB")), alpha)


def camvid(root: Path) -> Iterator[Example]:
    """Classes of streets."""
    for path in sorted((root / "camvid" / "valannot").glob("*.png"))[::CAMVID_STEP]:
        photo = next((root / "camvid" / "val").glob(f"{path.stem}.*"))
        yield example(np.asarray(Image.open(photo).convert("RGB")), np.asarray(Image.open(path)).astype(np.int64))


SETS: dict[str, Callable[[Path], Iterator[Example]]] = {
    "motorcycle": motorcycle,
    "NYU": nyu,
    "matting": matting,
    "CamVid": camvid,
}


def example(photo: np.ndarray, truth: np.ndarray) -> Example:
    H, W = (n // MULTIPLE * MULTIPLE for n in truth.shape)
    pixels = torch.from_numpy(np.array(photo[:H, :W])).permute(2, 0, 1)[None].contiguous()
    exact = truth[:H, :W] if truth.dtype == np.int64 else truth[:H, :W].astype(np.float32)
    return Example(pixels, torch.from_numpy(np.array(exact))[None, None])
