"""Files of MATLAB: the older ones through scipy, those since 7.3 through h5py, which is asked for only here."""

from pathlib import Path
from typing import Any

import numpy as np

from sapa.tasks.data.sample import BadSample


def load(path: Path, *names: str) -> list[Any]:
    """Variables of an older file, each as an array without empty dimensions, structs as objects."""
    from scipy.io import loadmat

    if not path.exists():
        raise FileNotFoundError(f"{path}: is missing; it has {' and '.join(names)}.")
    found = loadmat(path, squeeze_me=True, struct_as_record=False, variable_names=names)
    return [np.atleast_1d(found[name]) for name in names]


class Lazy:
    """A file of MATLAB 7.3, opened where it is read: an open one cannot go to a worker."""

    def __init__(self, path: Path) -> None:
        try:
            import h5py
        except ModuleNotFoundError as missing:
            raise ModuleNotFoundError(f"{path.name} needs h5py: pip install h5py", name="h5py") from missing
        if not h5py.is_hdf5(path):
            raise FileNotFoundError(f"{path}: is missing, or no file of MATLAB 7.3.")
        self.path = path
        self.file: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self.path, "file": None}

    def read(self, *keys: Any) -> Any:
        """What is under one key after the other: a name, a place, or a reference found there."""
        try:
            if self.file is None:
                import h5py

                self.file = h5py.File(self.path, "r")
            found = self.file
            for key in keys:
                found = found[key]
            return found
        except (OSError, KeyError, IndexError, ValueError) as error:
            raise BadSample(f"{self.path}: {keys} cannot be read: {error}") from error
