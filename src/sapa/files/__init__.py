"""Maps in files: read an image or array file as [h, w, c] in its own dtype, and write one back as it was."""

import re
from importlib import import_module
from pathlib import Path
from types import ModuleType

import numpy as np

from sapa.files import atomic
from sapa.files.map import FileError, Map, cast, hint

__all__ = ["FORMATS", "FileError", "Map", "cast", "dtype_for", "is_known", "read_guide", "read_map", "write_map"]

# each module has read(path, key), write(path, map), and dtype(map): the dtype its file would have, or why it cannot
FORMATS = {
    ".png": "sapa.files.png",
    ".jpg": "sapa.files.jpeg",
    ".jpeg": "sapa.files.jpeg",
    ".tif": "sapa.files.tiff",
    ".tiff": "sapa.files.tiff",
    ".exr": "sapa.files.exr",
    ".npy": "sapa.files.npy",
    ".npz": "sapa.files.npz",
    ".pt": "sapa.files.pt",
    ".pth": "sapa.files.pt",
}
KEYED = re.compile(r"(.+\.(?:npz|pt|pth)):([^:/\\]+)", re.IGNORECASE)


def split_key(path: str | Path) -> tuple[Path, str | None]:
    """maps.npz:depth as maps.npz and depth."""
    keyed = KEYED.fullmatch(str(path))
    if keyed is None or Path(path).exists():
        return Path(path), None
    return Path(keyed[1]), keyed[2]


def is_known(path: str | Path) -> bool:
    """Whether files with this suffix can be read and written."""
    return Path(path).suffix.lower() in FORMATS


def format_of(path: Path) -> ModuleType:
    if not is_known(path):
        raise FileError(f"{path}: no format {path.suffix or 'without a suffix'!r}. Available: {', '.join(FORMATS)}.")
    try:
        return import_module(FORMATS[path.suffix.lower()])
    except ModuleNotFoundError as missing:
        text = f"{path.suffix.lower()} files need {missing.name}: pip install 'sapa[files]'"
        raise ModuleNotFoundError(text, name=missing.name) from missing


def read_map(path: str | Path) -> Map:
    """Read a file, or one array of it as in `maps.npz:depth`, with all that is needed to write another like it."""
    file, key = split_key(path)
    module = format_of(file)
    try:
        file.open("rb").close()
        found: Map = module.read(file, key)
    except OSError as error:
        raise FileError(f"{path}: {error.strerror or f'is broken, or not what its name says: {error}'}.") from error
    except ValueError as error:
        raise FileError(f"{path}: {error}") from error
    except Exception as error:
        # each library has its own ways to say that a file is broken
        raise FileError(f"{path}: is broken, or not what its name says: {hint(error)}.") from error
    if found.values.size == 0:
        raise FileError(f"{path}: is empty: {list(found.values.shape)} (h w c).")
    return found


def read_guide(path: str | Path) -> np.ndarray:
    """Read a file as what it looks like: the colours of a palette, and no alpha. [H, W, c]"""
    found = read_map(path)
    if found.palette is not None:
        return found.palette[found.values[..., 0]][..., :3]  # [H, W, 3]
    opaque = [i for i, name in enumerate(found.channels) if name != "A"]
    if 0 < len(opaque) < len(found.channels):
        return found.values[..., opaque]
    return found.values


def dtype_for(path: Path, map: Map) -> np.dtype:
    """The dtype a file of this name would hold the map in, which is the map's own wherever the format has it."""
    try:
        return np.dtype(format_of(path).dtype(map))
    except ValueError as error:
        raise FileError(f"{path}: {error}") from error


def write_map(path: str | Path, map: Map) -> None:
    """Write a map, whole or not at all, in the format that the suffix names."""
    path = Path(path)
    module, dtype = format_of(path), dtype_for(path, map)
    values = map.values if map.values.dtype == dtype else cast(map.values, dtype)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic.replacing(path) as part:
            module.write(part, map.holding(np.ascontiguousarray(values)))
    except OSError as error:
        raise FileError(f"{path}: cannot be written: {error.strerror or error}.") from error
