"""PNG: 1, 8 and 16 bits; grey, colours, alpha; and label maps with a palette, of which both parts are kept."""

import warnings
from pathlib import Path

import imagecodecs
import numpy as np
from PIL import Image, ImageOps

from sapa.files.map import NAMES, Map


def read(path: Path, key: str | None) -> Map:
    with path.open("rb") as file:
        header = file.read(26)
    depth, is_grey = header[24:25] == b"\x10", header[25:26] == b"\x00"
    if depth and not is_grey:
        # Pillow would make it 8-bit without a word
        values = imagecodecs.png_decode(path.read_bytes())
        return Map(values, channels=NAMES[values.shape[2]])
    image = upright(path, "PNG")
    values = np.asarray(image)
    if image.mode == "P":
        return Map(values[..., None], layout="hw", labels=True, palette=_palette(image))
    if values.ndim == 2:
        return Map(values[..., None], layout="hw", channels=NAMES[1])
    return Map(values, channels=NAMES[values.shape[2]])


def upright(path: Path, kind: str) -> Image.Image:
    """The image as a viewer shows it: turned as its EXIF orientation says."""
    with warnings.catch_warnings():
        # a warning about many pixels; far too many are an error
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)
        with Image.open(path, formats=[kind]) as image:
            return ImageOps.exif_transpose(image)


def _palette(image: Image.Image) -> np.ndarray:
    colours = np.array(image.getpalette("RGB"), np.uint8).reshape(-1, 3)
    palette = np.full((len(colours), 4), 255, np.uint8)
    palette[:, :3] = colours
    clear = image.info.get("transparency")
    if isinstance(clear, bytes):
        palette[: len(clear), 3] = np.frombuffer(clear, np.uint8)[: len(palette)]
    elif clear is not None:
        palette[clear, 3] = 0
    return palette


def dtype(map: Map) -> np.dtype:
    kind, C = map.values.dtype, map.values.shape[2]
    if kind.kind == "f":
        raise ValueError(f"PNG holds whole numbers, and the map is {kind}: write .tiff, .exr or .npy.")
    if C > 4:
        raise ValueError(f"PNG holds 1 to 4 channels, and the map has {C}: write .tiff, .exr or .npy.")
    if kind in (np.uint8, np.uint16) or (kind == np.bool_ and C == 1):
        return kind
    low, high = map.values.min(), map.values.max()
    if low < 0 or high > 65535:
        raise ValueError(f"PNG holds 0 to 65535, and the map goes from {low} to {high}: write .tiff or .npy.")
    return np.dtype(np.uint16)


def write(path: Path, map: Map) -> None:
    values = map.values[..., 0] if map.values.shape[2] == 1 else map.values
    if map.palette is not None and values.dtype == np.uint8 and values.ndim == 2:
        palette = np.zeros((max(len(map.palette), int(values.max()) + 1), 4), np.uint8)
        palette[:, 3] = 255
        palette[: len(map.palette)] = map.palette
        image = Image.frombytes("P", values.shape[::-1], values.tobytes())
        image.putpalette(palette[:, :3].tobytes())
        is_clear = (palette[:, 3] < 255).any()
        image.save(path, "PNG", **({"transparency": palette[:, 3].tobytes()} if is_clear else {}))
    elif values.dtype == np.uint16 and values.ndim == 3:
        path.write_bytes(imagecodecs.png_encode(values))
    else:
        Image.fromarray(values).save(path, "PNG")
