"""What people use today, and ours, behind one call: low-res map and photograph to a map of full size."""

from collections.abc import Callable

import cv2
import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

import sapa
from bench.guided.sets import CLASSES
from sapa.geometry import size_of

Method = Callable[[Tensor, Tensor, int], Tensor]  # x, photo, scale

# the best of those that `python -m bench.guided.tune` tries on these very sets
SIGMA_COLOUR, SIGMA_SPACE = 0.05, 0.5  # of colours from 0 to 1; in low-res points
RADIUS, EPS = 0.5, 1e-4  # in low-res points; of colours from 0 to 1


def interpolated(mode: str) -> Method:
    def run(x: Tensor, photo: Tensor, scale: int) -> Tensor:
        return F.interpolate(x, size_of(photo), mode=mode)

    return run


def joint_bilateral_filter(
    x: Tensor, photo: Tensor, scale: int, *, sigma_colour: float = SIGMA_COLOUR, sigma_space: float = SIGMA_SPACE
) -> Tensor:
    """OpenCV's, on the map that bilinear interpolation gives."""
    guide = _image(photo.float() / 255)
    y = _image(F.interpolate(x, size_of(photo), mode="bilinear"))
    parts = [  # it takes one channel or three
        cv2.ximgproc.jointBilateralFilter(guide, np.ascontiguousarray(part), -1, sigma_colour, sigma_space * scale)
        for part in np.split(y, y.shape[2] // 3 if y.shape[2] % 3 == 0 else y.shape[2], 2)
    ]
    return _tensor(np.concatenate([part.reshape(*y.shape[:2], -1) for part in parts], 2))


def guided_filter(x: Tensor, photo: Tensor, scale: int, *, radius: float = RADIUS, eps: float = EPS) -> Tensor:
    """OpenCV's, on the map that bilinear interpolation gives."""
    y = _image(F.interpolate(x, size_of(photo), mode="bilinear"))
    parts = [  # it takes up to four channels
        cv2.ximgproc.guidedFilter(
            _image(photo), np.ascontiguousarray(y[..., c : c + 4]), round(radius * scale), eps * 255**2
        )
        for c in range(0, y.shape[2], 4)
    ]
    return _tensor(np.concatenate([part.reshape(*y.shape[:2], -1) for part in parts], 2))


def ours(x: Tensor, photo: Tensor, scale: int) -> Tensor:
    return sapa.guided_upsample(x, photo)


METHODS: dict[str, Method] = {
    "nearest": interpolated("nearest-exact"),
    "bilinear": interpolated("bilinear"),
    "bicubic": interpolated("bicubic"),
    "OpenCV joint bilateral": joint_bilateral_filter,
    "OpenCV guided filter": guided_filter,
    "guided_upsample": ours,
}


def upsampled(method: Method, x: Tensor, photo: Tensor, scale: int) -> Tensor:
    """Classes are lifted as shares of classes, of which the largest wins, and unknown points are filled before; ours
    takes both as they are."""
    if method is ours:
        return sapa.guided_upsample(x, photo, labels=not x.is_floating_point())
    if not x.is_floating_point():
        shares = F.one_hot(x[:, 0], CLASSES).movedim(-1, 1).float()
        return method(shares, photo, scale).argmax(1, keepdim=True)
    return method(filled(x), photo, scale)


def filled(x: Tensor) -> Tensor:
    """Points that are not known take the mean of the known ones around."""
    is_known, x = ~x.isnan(), x.nan_to_num()
    while not is_known.all():
        total, count = (F.avg_pool2d(m, 3, 1, 1) for m in (x * is_known, is_known.float()))
        x = torch.where(is_known, x, total / count.clamp_min(1e-9))
        is_known = is_known | (count > 0)
    return x


def _image(x: Tensor) -> np.ndarray:
    return np.ascontiguousarray(x[0].permute(1, 2, 0).numpy())


def _tensor(image: np.ndarray) -> Tensor:
    return torch.from_numpy(image).permute(2, 0, 1)[None]
