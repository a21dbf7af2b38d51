"""A map as it was in its file: values, and what they are called, coloured and laid out like."""

from dataclasses import dataclass, replace

import numpy as np

# in [h, w, c] arrays; more would hardly be seen, while maps are never this narrow
MOST_CHANNELS = 4
# of the channels of a picture, by their number
NAMES = {1: ("Y",), 2: ("Y", "A"), 3: ("R", "G", "B"), 4: ("R", "G", "B", "A")}


class FileError(ValueError):
    """A file that cannot be read, used or written; the message begins with its path."""


@dataclass(frozen=True, eq=False)
class Map:
    """One map, with what its file says about it.

    Args:
        values: [h, w, c] in the dtype of the file.
        layout: of the array in the file: hw, hwc, chw or 1chw.
        labels: whether each value is a class, so that nothing between two of them means anything.
        palette: colours of the values, RGBA [n, 4], uint8.
        channels: their names, where the file has names.
        key: of the array, in a file of several.
    """

    values: np.ndarray
    layout: str = "hwc"
    labels: bool = False
    palette: np.ndarray | None = None
    channels: tuple[str, ...] = ()
    key: str | None = None

    def holding(self, values: np.ndarray) -> "Map":
        """The same with other values [H, W, c]."""
        return replace(self, values=values)

    def array(self) -> np.ndarray:
        """The values in the layout of the file."""
        if self.layout == "hw":
            return self.values[..., 0]
        planes = self.values.transpose(2, 0, 1)
        return {"hwc": self.values, "chw": planes, "1chw": planes[None]}[self.layout]


def from_array(array: np.ndarray, *, key: str | None = None, layout: str | None = None) -> Map:
    """A map from an array in one of the four layouts; which, its shape says if it is not given."""
    if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
        raise ValueError(f"holds {array.dtype}, and a map needs numbers: bool, integers or floats.")
    layout = layout or layout_of(array.shape)
    native = array.astype(array.dtype.newbyteorder("="), copy=False)
    if layout == "hw":
        return Map(native[..., None], layout, key=key)
    if layout == "hwc":
        return Map(native, layout, key=key)
    return Map(native.reshape(native.shape[-3:]).transpose(1, 2, 0), layout, key=key)


def layout_of(shape: tuple[int, ...]) -> str:
    """[h, w]; [h, w, c] if the last of three is at most 4, else [c, h, w]; [1, c, h, w]."""
    if len(shape) == 2:
        return "hw"
    if len(shape) == 3:
        return "hwc" if shape[2] <= MOST_CHANNELS else "chw"
    if len(shape) == 4 and shape[0] == 1:
        return "1chw"
    raise ValueError(f"holds {list(shape)}, and a map must be [h, w], [h, w, c], [c, h, w] or [1, c, h, w].")


def cast(values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Values in another dtype: integers rounded and clamped to their range, never wrapped."""
    if dtype.kind == "b":
        return values >= 0.5
    if dtype.kind not in "iu":
        return values.astype(dtype, copy=False)
    info = np.iinfo(dtype)
    if values.dtype.kind == "f":
        # the largest 64-bit integers round up to a float that is none of them
        high = float(info.max) if int(float(info.max)) <= info.max else np.nextafter(float(info.max), 0)
        return np.clip(np.rint(values), float(info.min), high).astype(dtype)
    if values.dtype.kind in "iu":
        own = np.iinfo(values.dtype)
        values = np.clip(values, max(info.min, own.min), min(info.max, own.max))
    return values.astype(dtype)


def hint(error: Exception) -> str:
    """What an exception of a library says, in one line."""
    text = " ".join(str(error).split()).rstrip(".") or type(error).__name__
    return text if len(text) <= 200 else f"{text[:200]} ..."
