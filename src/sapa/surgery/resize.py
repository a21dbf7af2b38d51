"""The functions that can make a map larger: how a call is known again, and the size it makes."""

from math import floor
from typing import Any

import torch.nn.functional as F
from torch import Tensor

from sapa.geometry import Size, size_of

RESIZES = (F.interpolate, F.pixel_shuffle, F.conv_transpose2d)

Looks = tuple[str, str, int]  # function, mode and channels


def looks_of(func: Any, args: Any, kwargs: Any) -> Looks:
    """What stays the same of a call at any size."""
    x = args[0] if args else kwargs["input"]
    if func is F.interpolate:
        return "interpolate", args[3] if len(args) > 3 else kwargs.get("mode", "nearest"), x.shape[1]
    return "pixel_shuffle" if func is F.pixel_shuffle else "conv_transpose2d", "", x.shape[1]


def size_after(func: Any, x: Tensor, args: Any, kwargs: Any) -> Size:
    """The size of the result, as the function itself would have it."""
    low = size_of(x)
    if func is F.pixel_shuffle:
        factor = args[1] if len(args) > 1 else kwargs["upscale_factor"]
        return low[0] * factor, low[1] * factor
    if func is F.interpolate:
        size = args[1] if len(args) > 1 else kwargs.get("size")
        if size is not None:
            return (size[0], size[1]) if isinstance(size, (tuple, list)) else (size, size)
        factor = args[2] if len(args) > 2 else kwargs["scale_factor"]
        factors = factor if isinstance(factor, (tuple, list)) else (factor, factor)
        return times(low[0], factors[0]), times(low[1], factors[1])
    names = ("input", "weight", "bias", "stride", "padding", "output_padding", "groups", "dilation")
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    kernel = given["weight"].shape[2:]
    stride, dilation = pair(given.get("stride", 1)), pair(given.get("dilation", 1))
    padding, extra = pair(given.get("padding", 0)), pair(given.get("output_padding", 0))
    height, width = (
        (low[i] - 1) * stride[i] - 2 * padding[i] + dilation[i] * (kernel[i] - 1) + extra[i] + 1 for i in (0, 1)
    )
    return height, width


def times(n: int, factor: float) -> int:
    # a whole factor keeps a size of torch.export symbolic
    return n * int(factor) if factor == int(factor) else floor(n * factor)


def pair(value: Any) -> tuple[int, int]:
    return (value[0], value[-1]) if isinstance(value, (tuple, list)) else (value, value)
