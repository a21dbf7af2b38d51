"""Trimaps from mattes: everything partly transparent, and a margin around it, is unknown."""

from math import ceil
from typing import cast

import numpy as np
import torch
from torch import Tensor
from torchvision import tv_tensors

# the least alpha that counts as opaque, and the greatest that counts as clear: half a step of 8 bits
OPAQUE, CLEAR = 1 - 0.5 / 255, 0.5 / 255


def make_trimap(alpha: Tensor, inward: float, outward: float) -> tv_tensors.Mask:
    """[1, H, W] of 0, 0.5 and 1. What is opaque is eroded by a disk of radius `inward`, what is clear by `outward`,
    both in pixels; the frame erodes nothing."""
    values = alpha.as_subclass(Tensor)[0].numpy()
    trimap = np.zeros(values.shape, np.float32)
    # distances are dear, and far from the matte all is clear
    seen = values > CLEAR
    reach = ceil(max(inward, outward)) + 1
    at = tuple(_around(np.asarray(seen.any(axis)), reach) for axis in (1, 0))
    part = trimap[at]
    part[:] = 0.5
    part[_eroded(values[at] >= OPAQUE, inward)] = 1
    part[_eroded(~seen[at], outward)] = 0
    return tv_tensors.Mask(torch.from_numpy(trimap)[None])


def _around(line: np.ndarray, reach: int) -> slice:
    """From the first to the last that is set, and so much beyond."""
    places = np.flatnonzero(line)
    return slice(max(0, places[0] - reach), places[-1] + 1 + reach) if len(places) else slice(0)


def _eroded(region: np.ndarray, radius: float) -> np.ndarray:
    from scipy.ndimage import distance_transform_edt

    if region.all() or not region.any():
        return region
    return cast(np.ndarray, distance_transform_edt(region)) > radius
