"""Foregrounds over backgrounds, and foregrounds from photographs."""

from math import ceil
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from sapa.tasks.data.sample import BadSample

# radii of the two passes as shares of the width: far colours serve where there are no near ones
BOXES = (0.1, 0.0075)


def background(path: Path, size: tuple[int, int], place: tuple[float, float] = (0.0, 0.0)) -> np.ndarray:
    """A window of (H, W) of an image, which is enlarged if it is smaller; `place` in 0..1 says where, from the top left
    corner on. With (0, 0) it is that of the code that comes with Composition-1k."""
    H, W = size
    try:
        with Image.open(path) as image:
            image = image.convert("RGB")
            ratio = max(W / image.width, H / image.height)
            if ratio > 1:
                image = image.resize((ceil(image.width * ratio), ceil(image.height * ratio)), Image.Resampling.BICUBIC)
            top, left = int(place[0] * (image.height - H)), int(place[1] * (image.width - W))
            return np.asarray(image.crop((left, top, left + W, top + H)))
    except FileNotFoundError as error:
        raise BadSample(f"{path}: there is no such background.") from error
    except (OSError, SyntaxError, ValueError) as error:
        raise BadSample(f"{path}: is broken, or no image: {error}") from error


def foreground(image: Tensor, alpha: Tensor) -> Tensor:
    """The colours [3, H, W] of what is in front, by two passes of blurred means of foreground and background, each
    corrected so that the two compose to the image: blur fusion (Forte, 2021)."""
    image, alpha = image.as_subclass(Tensor), alpha.as_subclass(Tensor)
    fg, bg = image, image
    for share in BOXES:
        radius = max(1, round(share * image.shape[-1]))
        # where nothing is near enough, what the pass before found
        fg_mean = (blurred(fg * alpha, radius) + 1e-5 * fg) / (blurred(alpha, radius) + 1e-5)
        bg_mean = (blurred(bg * (1 - alpha), radius) + 1e-5 * bg) / (blurred(1 - alpha, radius) + 1e-5)
        rest = image - alpha * fg_mean - (1 - alpha) * bg_mean
        fg, bg = (fg_mean + alpha * rest).clamp(0, 1), bg_mean.clamp(0, 1)
    return fg


def blurred(planes: Tensor, radius: int) -> Tensor:
    """Sums over squares of [c, H, W], divided by the size of a whole one; here only their ratios matter."""
    from scipy.ndimage import uniform_filter

    size = 2 * radius + 1
    return torch.from_numpy(uniform_filter(planes.numpy(), size, mode="constant", axes=(1, 2)))


def spread(i: int, seed: int = 0) -> tuple[float, float, float]:
    """Three numbers in 0..1 that depend on i alone."""
    generator = torch.Generator().manual_seed(i * 1_000_003 + seed)
    a, b, c = torch.rand(3, generator=generator).tolist()
    return a, b, c
