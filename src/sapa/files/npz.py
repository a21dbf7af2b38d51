"""NumPy's .npz: the only array, or the one that is named."""

import zipfile
from pathlib import Path

import numpy as np

from sapa.files.map import Map, from_array
from sapa.files.npy import dtype as dtype


def read(path: Path, key: str | None) -> Map:
    # np.load would leave a broken file open
    with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        key = choose(list(arrays), key, path)
        return from_array(arrays[key], key=key)


def choose(keys: list[str], key: str | None, path: Path) -> str:
    """The key that was given, or the only one there is."""
    if key is None and len(keys) == 1:
        return keys[0]
    if key in keys:
        return key
    found = f"holds {', '.join(keys) or 'nothing'}"
    if key is not None or not keys:
        raise ValueError(f"{found}, and not what was asked for.")
    raise ValueError(f"{found}: name one of them, as in {path.name}:{keys[0]}.")


def write(path: Path, map: Map) -> None:
    # np.savez takes the keys as arguments, and so could not write one named "file"
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open(f"{map.key or 'arr_0'}.npy", "w", force_zip64=True) as file,
    ):
        np.lib.format.write_array(file, np.ascontiguousarray(map.array()), allow_pickle=False)
