"""The state of a run in one file: there whole or not at all, and never executed when it is read.

Weights and the tensors of the optimizer are safetensors; numbers and names are JSON in the header of the same file, so
that a single rename makes the step from one state to the next. There are no states of random generators: every step
and every sample is seeded by its number, so the number of the step says where in the data and in chance a run is.
"""

import json
from collections.abc import Mapping
from math import isfinite
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as packed
from torch import Tensor, nn

from sapa.files import atomic

STATE, WEIGHTS, RESULT, RUN = "state.safetensors", "model.safetensors", "result.json", "run.json"
MODEL, OPTIMIZER = "model/", "optimizer/"
NOTE = "sapa"  # the key of the JSON in the header


class CannotWrite(OSError):
    """A file could not be written; what was there before is as it was."""


def save(path: Path, tensors: Mapping[str, Tensor], note: Mapping[str, Any]) -> None:
    """Write tensors and a note as JSON in place of what the file held."""
    # copies: a file has no two names for one memory, as models have
    ready = {name: x.detach().to("cpu", copy=True).contiguous() for name, x in tensors.items()}
    # written here rather than by safetensors, which makes a file of its own that nobody syncs
    _write(path, packed(ready, {NOTE: json.dumps(note)}))


def read(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """What `save` wrote."""
    try:
        with safe_open(path, framework="pt") as file:
            note = (file.metadata() or {}).get(NOTE, "{}")
            return {name: file.get_tensor(name) for name in file.keys()}, json.loads(note)  # noqa: SIM118
    except (SafetensorError, json.JSONDecodeError) as error:
        raise ValueError(f"{path} is broken, or no safetensors file: {error}.") from error


def weights_in(folder: Path) -> dict[str, Tensor]:
    """Of a finished run, or else of the last state of one that was interrupted."""
    if (folder / WEIGHTS).exists():
        return read(folder / WEIGHTS)[0]
    if (folder / STATE).exists():
        return part_of(read(folder / STATE)[0], MODEL)
    raise FileNotFoundError(f"{folder} holds no run: neither {WEIGHTS} nor {STATE} is there.")


def gather(model: Mapping[str, Tensor], optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The tensors of a state."""
    tensors = {MODEL + name: x for name, x in model.items()}
    for i, state in optimizer.state_dict()["state"].items():
        tensors |= {f"{OPTIMIZER}{i}/{key}": x for key, x in state.items() if x is not None}
    return tensors


def restore(tensors: Mapping[str, Tensor], model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Bring model and optimizer back to where `gather` found them."""
    model.load_state_dict(part_of(tensors, MODEL))
    state: dict[int, dict[str, Tensor]] = {}
    for name, x in part_of(tensors, OPTIMIZER).items():
        i, _, key = name.partition("/")
        state.setdefault(int(i), {})[key] = x
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})


def part_of(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): x for name, x in tensors.items() if name.startswith(prefix)}


def write_json(path: Path, value: Any) -> None:
    _write(path, (json.dumps(without_nan(value), indent=1, allow_nan=False) + "\n").encode())


def without_nan(value: Any) -> Any:
    """JSON knows no NaN, which is what the IoU of a class is that occurs nowhere: null."""
    if isinstance(value, dict):
        return {key: without_nan(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [without_nan(each) for each in value]
    return None if isinstance(value, float) and not isfinite(value) else value


def _write(path: Path, content: bytes) -> None:
    try:
        with atomic.replacing(path) as part:
            part.write_bytes(content)
    except OSError as error:
        raise CannotWrite(f"{path} cannot be written: {error.strerror or error}.") from error


def read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise ValueError(f"{path} is broken: {error}.") from error
