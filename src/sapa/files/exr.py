"""OpenEXR: 16- and 32-bit floats, or 32-bit integers, in channels that have names."""

from contextlib import redirect_stdout
from pathlib import Path

import numpy as np
import OpenEXR

from sapa.files.map import NAMES, Map

MAGIC = b"\x76\x2f\x31\x01"


def read(path: Path, key: str | None) -> Map:
    with path.open("rb") as file:
        if file.read(4) != MAGIC:
            raise ValueError("is not an OpenEXR file, whatever its name says.")
    # about a broken file the library prints, and then gives a file without parts
    with redirect_stdout(None), OpenEXR.File(str(path), separate_channels=True) as file:
        if not file.parts:
            raise ValueError("is broken: it ends too early, or holds nothing.")
        if len(file.parts) != 1:
            raise ValueError(f"has {len(file.parts)} parts, and a map needs one: take them apart.")
        header, found = file.header(), file.channels()
        if not np.array_equal(header["dataWindow"], header["displayWindow"]):
            raise ValueError(
                "has pixels for another window than it shows: write it with equal data and display windows."
            )
        names = sorted(found, key=_order)
        planes = [found[name].pixels for name in names]
    if len({plane.shape for plane in planes}) != 1:
        raise ValueError(f"has channels of several sizes: {', '.join(names)}.")
    kinds = {plane.dtype for plane in planes}
    if len(kinds) > 1 and np.dtype(np.uint32) in kinds:
        raise ValueError(f"has integer and float channels: {', '.join(names)}. Take them apart.")
    return Map(np.stack(planes, -1), "hw" if len(planes) == 1 else "hwc", channels=tuple(names))


def _order(name: str) -> tuple[int, str]:
    """R G B A first, in this order."""
    return ("RGBA".index(name) if name in tuple("RGBA") else 4, name)


def dtype(map: Map) -> np.dtype:
    kind = map.values.dtype
    return kind if kind in (np.float16, np.float32, np.uint32) else np.dtype(np.float32)


def write(path: Path, map: Map) -> None:
    C = map.values.shape[2]
    names = map.channels or NAMES.get(C) or tuple(f"C{i:03}" for i in range(C))
    # the library takes no strides into account
    channels = {name: np.ascontiguousarray(map.values[..., i]) for i, name in enumerate(names)}
    header = {"compression": OpenEXR.ZIP_COMPRESSION, "type": OpenEXR.scanlineimage}
    try:
        OpenEXR.File(header, channels).write(str(path))
    except RuntimeError as error:
        raise OSError(str(error)) from error
