"""Moves of a whole sample: every map, box and distance in it goes along."""

from typing import Any

import torch
from torch import Tensor
from torchvision import tv_tensors
from torchvision.transforms import InterpolationMode
from torchvision.transforms.v2 import functional as F

from sapa.tasks.data.sample import IGNORE, Sample

Size = tuple[int, int]
SMOOTH, LABELS = ("image", "fg", "bg", "alpha"), ("mask", "depth", "trimap")
# what is there where the picture is not
FILL = {"mask": IGNORE}
# a box of which less is left is gone
LEAST = 1.0


def size_of(sample: Sample) -> Size:
    H, W = sample["image"].shape[-2:]
    return H, W


def resize(sample: Sample, size: Size, keys: tuple[str, ...] = (*SMOOTH, *LABELS, "boxes")) -> Sample:
    """To (H, W). Pictures are smoothed; labels and depths are those at the nearest point, by pixel centres; a trimap
    stays known where all that a pixel is made of was."""
    H, W = size_of(sample)
    if size == (H, W):
        return sample
    found = dict(sample)
    for key in keys:
        if key not in sample:
            continue
        if key == "trimap":
            found[key] = _resized_trimap(sample[key], size)
        elif key in LABELS:
            planes = sample[key].as_subclass(Tensor).reshape(1, -1, *sample[key].shape[-2:])
            values = F.resize_image(planes, list(size), InterpolationMode.NEAREST_EXACT)
            found[key] = tv_tensors.Mask(values.reshape(*sample[key].shape[:-2], *size))
        else:
            found[key] = F.resize(sample[key], list(size), antialias=True)
    if "boxes" in keys and "area" in sample:
        found["area"] = sample["area"] * (size[0] / H * size[1] / W)
    return _composed(found) if "image" in keys else found


def _resized_trimap(trimap: Tensor, size: Size) -> tv_tensors.Mask:
    values = trimap.as_subclass(Tensor)
    opaque, clear = (F.resize_image((values == known).float(), list(size)) for known in (1, 0))
    # a weight below this is rounding
    return tv_tensors.Mask(torch.where(opaque > 1 - 1e-4, 1.0, torch.where(clear > 1 - 1e-4, 0.0, 0.5)))


def crop(sample: Sample, top: int, left: int, size: Size) -> Sample:
    """A window of (H, W), filled where it reaches beyond the picture: labels are ignored there, depths unknown."""
    H, W = size_of(sample)
    if (top, left, *size) == (0, 0, H, W):
        return sample
    inner = (slice(max(top, 0), max(min(top + size[0], H), 0)), slice(max(left, 0), max(min(left + size[1], W), 0)))
    rows, columns = (max(0, part.stop - part.start) for part in inner)
    above, before = max(0, -top), max(0, -left)
    margins = [before, above, size[1] - before - columns, size[0] - above - rows]
    found = dict(sample)
    for key in (*SMOOTH, *LABELS):
        if key in sample:
            window = sample[key].as_subclass(Tensor)[(..., *inner)]
            padded = F.pad_image(window[None], margins, fill=FILL.get(key, 0))[0] if any(margins) else window
            found[key] = _like(sample[key], padded)
    if "boxes" in sample:
        found |= _cropped_boxes(sample, top, left, size)
    return found


def _cropped_boxes(sample: Sample, top: int, left: int, size: Size) -> dict[str, Any]:
    boxes = sample["boxes"].as_subclass(Tensor) - torch.tensor([left, top, left, top])
    inside = torch.stack([boxes[:, i].clamp(0, size[1 - i % 2]) for i in range(4)], dim=1)
    before, after = _areas(boxes), _areas(inside)
    is_left = after >= LEAST
    found: dict[str, Any] = {key: sample[key][is_left] for key in ("labels", "crowd") if key in sample}
    if "area" in sample:
        # the outline itself is not known: it loses as its box does
        found["area"] = (sample["area"] * after / before)[is_left]
    return found | {"boxes": tv_tensors.BoundingBoxes(inside[is_left], format="XYXY", canvas_size=size)}  # type: ignore[call-overload]


def _areas(boxes: Tensor) -> Tensor:
    return (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])


def flip(sample: Sample) -> Sample:
    """Left to right."""
    keys = [key for key in (*SMOOTH, *LABELS, "boxes") if key in sample]
    return sample | {key: F.horizontal_flip(sample[key]) for key in keys}


def rotate(sample: Sample, degrees: float) -> Sample:
    """Around the centre; the corners are filled as in `crop`. Not for boxes: what encloses a turned box is no tight
    box."""
    if "boxes" in sample:
        raise ValueError("rotate: boxes do not stay tight when a picture is turned; use rotate = 0 for detection.")
    found = dict(sample)
    for key in (*SMOOTH, *LABELS):
        if key in sample:
            mode = InterpolationMode.BILINEAR if key in SMOOTH else InterpolationMode.NEAREST
            planes = sample[key].as_subclass(Tensor).reshape(-1, *sample[key].shape[-2:])
            values = F.rotate_image(planes.float(), degrees, mode, fill=[float(FILL.get(key, 0))])
            found[key] = _like(sample[key], values.reshape(sample[key].shape))
    return _composed(found)


def _like(old: Tensor, values: Tensor) -> Tensor:
    return type(old)(values.to(old.dtype))


def _composed(sample: Sample) -> Sample:
    """A composite stays one: the product of means is not the mean of products."""
    if "fg" in sample and "bg" in sample:
        sample["image"] = compose(sample["fg"], sample["bg"], sample["alpha"])
    return sample


def compose(fg: Tensor, bg: Tensor, alpha: Tensor) -> tv_tensors.Image:
    """alpha * fg + (1 - alpha) * bg, all [c, H, W]."""
    parts = (x.as_subclass(Tensor) for x in (bg, fg, alpha))
    return tv_tensors.Image(torch.lerp(*parts))
