"""A photograph from anywhere as a tensor, and at the size of the page."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor

from sapa.geometry import Size, size_of

if TYPE_CHECKING:
    from PIL.Image import Image

LARGEST = {torch.uint8: 255, torch.uint16: 65535, torch.int16: 32767, torch.int32: 65535, torch.int64: 255}


def read(image: Any) -> Tensor:
    """[1, 3, H, W] from 0 to 1, of a path, a PIL image, an array [H, W], [H, W, 3 or 4] or a tensor [3, H, W]."""
    if isinstance(image, (str, Path)):
        return _open(Path(image))
    if isinstance(image, Tensor):
        pixels = image[0] if image.ndim == 4 and len(image) == 1 else image
    elif hasattr(image, "getbands"):
        pixels = _pixels(image)
    elif hasattr(image, "__array__"):
        pixels = torch.as_tensor(image)
        pixels = pixels.permute(2, 0, 1) if pixels.ndim == 3 else pixels
    else:
        raise TypeError(f"see: image must be a path, a PIL image, an array or a tensor, got {type(image).__name__}.")
    pixels = pixels[None] if pixels.ndim == 2 else pixels
    if pixels.ndim != 3 or not 1 <= len(pixels) <= 4 or pixels.numel() == 0:
        raise ValueError(
            f"see: image must be an array [H, W] or [H, W, 3], or a tensor [3, H, W], got {list(pixels.shape)}."
        )
    return _colours(_unit(pixels.detach().cpu()))[None]


def fit(photo: Tensor, low: Size, scale: Size) -> Tensor:
    """Resize to a whole number of cells, smoothly where it becomes smaller."""
    size = (low[0] * scale[0], low[1] * scale[1])
    if size == size_of(photo):
        return photo
    return F.interpolate(photo, size, mode="bicubic", antialias=True, align_corners=False).clamp(0, 1)


def cells(size: Size, scale: Size, longest: int) -> Size:
    """Low-res points of a photograph of this size, where the longer side has at most so many high-res points."""
    shrink = min(1.0, longest / max(size))
    h, w = (max(1, round(n * shrink / S)) for n, S in zip(size, scale, strict=True))
    return min(h, max(1, longest // scale[0])), min(w, max(1, longest // scale[1]))


def _open(path: Path) -> Tensor:
    from PIL import Image

    try:
        with Image.open(path) as image:
            # a JPEG much too large is decoded smaller, to a size still far above that of the page
            image.draft("RGB", (2048, 2048))
            return read(image)
    except Image.DecompressionBombError as error:
        raise ValueError(f"see: {path.name} is too large: {error} Shrink it first.") from error


def _pixels(image: "Image") -> Tensor:
    """[C, H, W] in the type of the file, the way up a person sees it."""
    import numpy as np
    from PIL import ImageOps

    image = ImageOps.exif_transpose(image)
    if image.mode not in ("L", "RGB", "RGBA") and not image.mode.startswith(("I", "F")):
        image = image.convert("RGBA" if "A" in image.getbands() or "transparency" in image.info else "RGB")
    pixels = torch.from_numpy(np.array(image))
    return pixels.permute(2, 0, 1) if pixels.ndim == 3 else pixels


def _unit(pixels: Tensor) -> Tensor:
    """From 0 to 1: integers by the largest of their type, reals as they are if they fit, else by their extent."""
    if pixels.dtype == torch.bool:
        return pixels.float()
    if not pixels.dtype.is_floating_point:
        return (pixels.to(torch.int32).float() / LARGEST.get(pixels.dtype, 255)).clamp(0, 1)
    pixels = torch.nan_to_num(pixels.float(), posinf=0.0, neginf=0.0)
    low, high = pixels.min(), pixels.max()
    return pixels if low >= 0 and high <= 1 else (pixels - low) / (high - low).clamp_min(1e-12)


def _colours(pixels: Tensor) -> Tensor:
    """[3, H, W]: grey three times, and what is transparent over white."""
    if len(pixels) in (2, 4):
        pixels = 1 - (1 - pixels[:-1]) * pixels[-1:]
    return pixels if len(pixels) == 3 else pixels[:1].expand(3, -1, -1)
