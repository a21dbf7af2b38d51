"""TIFF: integers and floats of any width, any number of channels, interleaved or in planes; palettes."""

from pathlib import Path
from typing import Any

import numpy as np
import tifffile

from sapa.files.map import NAMES, Map, from_array

ALPHA = (tifffile.EXTRASAMPLE.ASSOCALPHA, tifffile.EXTRASAMPLE.UNASSALPHA)
UPRIGHT = 1


def read(path: Path, key: str | None) -> Map:
    with tifffile.TiffFile(path) as file:
        if len(file.series) != 1:
            raise ValueError(f"holds {len(file.series)} pictures, and a map needs one: take them apart.")
        series = file.series[0]
        page, axes = file.pages.first, series.axes
        # channels may be samples, planes or pages
        layout = {"YX": "hw", "YXS": "hwc"}.get(axes, "chw" if len(axes) == 3 and axes.endswith("YX") else None)
        if layout is None:
            raise ValueError(f"holds {list(series.shape)} ({' '.join(axes)}), and a map is one picture: take it apart.")
        turned = page.tags.get("Orientation")
        if turned is not None and turned.value != UPRIGHT:
            raise ValueError(f"is stored turned or mirrored (TIFF orientation {turned.value}): save it upright.")
        found = from_array(series.asarray(), layout=layout)
        if page.colormap is not None and layout == "hw":
            palette = np.full((page.colormap.shape[1], 4), 255, np.uint8)
            palette[:, :3] = page.colormap.T >> 8
            return Map(found.values, layout, labels=True, palette=palette)
        return Map(found.values, layout, channels=_names(page, found.values.shape[2]))


def _names(page: tifffile.TiffPage, C: int) -> tuple[str, ...]:
    alphas = [sample for sample in page.extrasamples if sample in ALPHA]
    colours = 3 if page.photometric == tifffile.PHOTOMETRIC.RGB else 1
    return NAMES[C] if len(alphas) <= 1 and colours + len(alphas) == C else ()


def dtype(map: Map) -> np.dtype:
    return np.dtype(np.uint8) if map.values.dtype == np.bool_ else map.values.dtype


def write(path: Path, map: Map) -> None:
    options: dict[str, Any] = {"photometric": "minisblack"}
    if map.palette is not None and map.values.dtype == np.uint8 and map.layout == "hw":
        colours = np.zeros((3, 256), np.uint16)
        colours[:, : len(map.palette)] = map.palette[:256, :3].T.astype(np.uint16) * 257
        options = {"photometric": "palette", "colormap": colours}
    elif map.channels[:3] == NAMES[3]:
        options = {"photometric": "rgb"}
    if map.channels[-1:] == ("A",):
        options["extrasamples"] = ["unassalpha"]
    if map.layout in ("chw", "1chw"):
        array, options["planarconfig"] = map.values.transpose(2, 0, 1), "separate"
    elif map.values.shape[2] == 1:
        array = map.values[..., 0]
    else:
        array, options["planarconfig"] = map.values, "contig"
    with path.open("wb") as file:
        tifffile.imwrite(file, array, compression="zlib", predictor=map.palette is None, metadata=None, **options)
