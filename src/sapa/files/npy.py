"""NumPy's .npy: one array, written back in the layout it had."""

from pathlib import Path

import numpy as np

from sapa.files.map import Map, from_array


def read(path: Path, key: str | None) -> Map:
    return from_array(np.load(path, allow_pickle=False))


def dtype(map: Map) -> np.dtype:
    return map.values.dtype


def write(path: Path, map: Map) -> None:
    with path.open("wb") as file:
        np.save(file, np.ascontiguousarray(map.array()), allow_pickle=False)
