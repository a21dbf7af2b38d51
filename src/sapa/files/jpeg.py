"""JPEG, for photographs: 8 bits, grey or colours, a little changed with each writing."""

from pathlib import Path

import numpy as np
from PIL import Image

from sapa.files.map import NAMES, Map
from sapa.files.png import upright


def read(path: Path, key: str | None) -> Map:
    image = upright(path, "JPEG")
    values = np.asarray(image if image.mode == "L" else image.convert("RGB"))
    values = values if values.ndim == 3 else values[..., None]
    return Map(values, layout="hwc" if image.mode != "L" else "hw", channels=NAMES[values.shape[2]])


def dtype(map: Map) -> np.dtype:
    kind, C = map.values.dtype, map.values.shape[2]
    if map.labels:
        raise ValueError("JPEG changes values a little, and the map has labels: write .png.")
    if kind != np.uint8:
        other = ".tiff, .exr or .npy" if kind.kind == "f" else ".png or .tiff"
        raise ValueError(f"JPEG holds 8 bits, and the map is {kind}: write {other}.")
    if C not in (1, 3):
        raise ValueError(f"JPEG holds 1 or 3 channels, and the map has {C}: write .png or .tiff.")
    return kind


def write(path: Path, map: Map) -> None:
    values = map.values[..., 0] if map.values.shape[2] == 1 else map.values
    Image.fromarray(values).save(path, "JPEG", quality=95, subsampling=0)
