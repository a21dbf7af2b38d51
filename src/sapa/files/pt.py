"""PyTorch's .pt: a tensor, or one of a dict, loaded without running any code of the file."""

import pickle
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from sapa.files.map import Map, from_array
from sapa.files.npy import dtype as dtype
from sapa.files.npz import choose

LAYOUTS = {2: "hw", 3: "chw"}


def read(path: Path, key: str | None) -> Map:
    try:
        found = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise ValueError("holds more than tensors, or is broken: save a tensor, or a dict of tensors.") from error
    if isinstance(found, dict):
        key = choose([name for name in found if isinstance(name, str)], key, path)
        found = found[key]
    elif key is not None:
        raise ValueError(f"holds no dict, so that there is no {key!r} in it.")
    if not isinstance(found, Tensor):
        raise ValueError(f"holds a {type(found).__name__}, and a map is a tensor.")
    x = found.detach()
    # numpy has no bfloat16
    x = x.float() if x.dtype == torch.bfloat16 else x
    return from_array(x.resolve_neg().numpy(), key=key, layout=LAYOUTS.get(x.ndim))


def write(path: Path, map: Map) -> None:
    x = torch.from_numpy(np.ascontiguousarray(map.array()))
    with path.open("wb") as file:
        torch.save(x if map.key is None else {map.key: x}, file)
