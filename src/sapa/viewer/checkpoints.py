"""A trained upsampler from a file: its sizes and options are read off the shapes of what is in it."""

import inspect
import pickle
from collections.abc import Mapping
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sapa.checks import suggest
from sapa.nn import UPSAMPLERS, Upsampler, build
from sapa.nn.fade import H2L_NAMES
from sapa.nn.sapa import TRAINED_NAMES

State = dict[str, Tensor]

# sizes that a shape may be linear in, with a value that every upsampler can be built with
SIZES = {"channels": 64, "guide_channels": 64, "embed_dim": 32, "compressed_channels": 32}
# options that are tried one after the other until the shapes fit
CHOICES: dict[str, tuple[Any, ...]] = {
    "kernel_size": (5, 3, 7, 9, 1),
    "up_kernel": (5, 3, 7, 9, 1),
    "up_kernel_size": (3, 5, 7, 1),
    "norm": ("layer", "group", "none"),
    "bias": (True, False),
}


def load(name: str, path: str | Path, *, scale: int, kernel_size: int | None = None) -> Upsampler:
    """Build the upsampler `name` as it was trained.

    Args:
        name: in `UPSAMPLERS`.
        path: of a state dict, .safetensors or what `torch.save` writes. In one of a whole model the upsampler is looked
            for; where there are several, `model.pt:decoder.up1` says which.
        scale: S; some upsamplers have parameters for each point of a cell.
        kernel_size: K, where it is no default and no shape shows it, as in SAPA.
    """
    file, place = _split(str(path))
    if name not in UPSAMPLERS:
        raise KeyError(f"no upsampler {name!r}.{suggest(name, UPSAMPLERS)}")
    state = read(file)
    for prefix in _places(name, state, scale, file) if place is None else [place]:
        own = {key.removeprefix(prefix): value for key, value in state.items() if key.startswith(prefix)}
        options = _options(name, own, scale, kernel_size)
        if options is not None:
            up = build(name, scale=scale, **options)
            up.load_state_dict(own)
            return up.eval()
    raise ValueError(
        f"see: {file} holds no {name} for scale={scale}: {_shapes_of(state)}. Build and load it yourself, and pass the "
        f"module to sapa.see."
    )


def _split(path: str) -> tuple[Path, str | None]:
    file, _, prefix = path.rpartition(":")
    if not file or Path(path).exists():
        return Path(path), None
    return Path(file), prefix + "." if prefix else ""


def read(file: Path) -> State:
    """The tensors of a state dict, under the names that upsamplers have here."""
    try:
        found = _unpacked(file)
    except (OSError, ModuleNotFoundError):
        raise
    except Exception as error:  # each format has its own errors
        raise ValueError(f"see: {file} is no checkpoint that can be read: {error}") from error
    for wrapper in ("state_dict", "model"):
        if isinstance(found, Mapping) and isinstance(found.get(wrapper), Mapping):
            found = found[wrapper]
    state = dict(found) if isinstance(found, Mapping) else {}
    state = {key: value for key, value in state.items() if isinstance(value, Tensor)}
    if not state:
        raise ValueError(f"see: {file} holds no state dict; save one with torch.save(up.state_dict(), path).")
    return {_renamed(key): value for key, value in state.items()}


def _unpacked(file: Path) -> Any:
    if file.suffix != ".safetensors":
        try:
            return torch.load(file, map_location="cpu", weights_only=True)
        except pickle.UnpicklingError:
            # whose text asks to load it with weights_only=False, which would run whatever code is in it
            raise ValueError(
                "it is damaged, or holds other things than tensors, which could run code; save the tensors alone, "
                "with torch.save(up.state_dict(), path)."
            ) from None
    try:
        from safetensors.torch import load_file
    except ModuleNotFoundError as missing:
        raise ModuleNotFoundError(f"see needs {missing.name}: pip install 'sapa[see]'", name=missing.name) from None
    return load_file(file)


def _renamed(key: str) -> str:
    for old, new in {**TRAINED_NAMES, **H2L_NAMES}.items():
        start = key.find(old)
        if start == 0 or (start > 0 and key[start - 1] == "."):
            return key[:start] + new + key[start + len(old) :]
    return key


def _places(name: str, state: State, scale: int, file: Path) -> list[str]:
    """Prefixes under which all parameters of such an upsampler are found."""
    found = set()
    for options in _choices(name, None):
        keys = list(_shapes(name, scale, {**_sizes(name), **options}))
        ends = [key.removesuffix(keys[0]) for key in state if key.endswith(keys[0])] if keys else []
        found |= {p for p in ends if (not p or p.endswith(".")) and all(p + key in state for key in keys)}
    if len(found) > 1:
        listed = ", ".join(sorted(prefix.removesuffix(".") or "itself" for prefix in found))
        raise ValueError(f"see: {file} holds more than one {name}: {listed}. Say which, as in {file}:decoder.up1.")
    return list(found)


def _options(name: str, state: State, scale: int, kernel_size: int | None) -> dict[str, Any] | None:
    """Sizes and options with which the parameters have exactly the shapes of the state."""
    wanted = {key: tuple(value.shape) for key, value in state.items()}
    for options in _choices(name, kernel_size):
        sizes = _solved(name, scale, options, wanted)
        try:
            if sizes and _shapes(name, scale, {**sizes, **options}) == wanted:
                return {**sizes, **options}
        except ValueError:  # sizes that do not go with these options
            continue
    return None


def _solved(name: str, scale: int, options: dict[str, Any], wanted: dict[str, tuple[int, ...]]) -> dict[str, int]:
    """Read each size off a dimension that, besides those already known, changes with this size alone."""
    base = _sizes(name)
    before = _shapes(name, scale, {**base, **options})
    after = {size: _doubled(name, scale, {**base, **options}, size) for size in base}
    if any(len(wanted.get(key, ())) != len(shape) for key, shape in before.items()):
        return {}
    dimensions = [(key, i) for key, shape in before.items() for i in range(len(shape))]
    found: dict[str, int] = {}
    for key, i in [*dimensions, *dimensions]:
        slopes = {size: (shapes[key][i] - before[key][i]) / base[size] for size, shapes in after.items()}
        unknown = [size for size, slope in slopes.items() if slope and size not in found]
        if len(unknown) == 1:
            rest = wanted[key][i] - before[key][i] - sum(slopes[size] * (n - base[size]) for size, n in found.items())
            found[unknown[0]] = round(base[unknown[0]] + rest / slopes[unknown[0]])
    # of a map that no parameter depends on, as many as of the other
    for one, other in (("channels", "guide_channels"), ("guide_channels", "channels")):
        if one not in found and other in found:
            found[one] = found[other]
    return found


def _doubled(name: str, scale: int, options: dict[str, Any], size: str) -> dict[str, tuple[int, ...]]:
    try:
        return _shapes(name, scale, {**options, size: 2 * options[size]})
    except ValueError:  # both maps must have the same channels: then they are found as those of x
        both = {n: 2 * options[n] for n in ("channels", "guide_channels")} if size == "channels" else {}
        return _shapes(name, scale, {**options, **both})


def _shapes(name: str, scale: int, options: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    with torch.device("meta"):
        up = build(name, scale=scale, **options)
    return {key: tuple(value.shape) for key, value in up.state_dict().items()}


def _accepted(name: str) -> set[str]:
    factory = UPSAMPLERS[name]
    fixed = set(factory.keywords) if isinstance(factory, partial) else set()
    return set(inspect.signature(factory).parameters) - fixed


def _sizes(name: str) -> dict[str, int]:
    is_lite = name == "fade_lite"  # whose embedding has K*K channels
    return {size: n for size, n in SIZES.items() if size in _accepted(name) and not (is_lite and size == "embed_dim")}


def _choices(name: str, kernel_size: int | None) -> list[dict[str, Any]]:
    accepted = {option: values for option, values in CHOICES.items() if option in _accepted(name)}
    if "norm" in accepted and name == "sapa_d":
        accepted["norm"] = ("none", "group")
    if kernel_size is not None:
        accepted = {option: (kernel_size,) if "kernel" in option else values for option, values in accepted.items()}
    return [dict(zip(accepted, values, strict=True)) for values in product(*accepted.values())]


def _shapes_of(state: State) -> str:
    listed = [f"{key} {list(value.shape)}" for key, value in state.items()]
    return ", ".join(listed[:4]) + (f" and {len(listed) - 4} more" if len(listed) > 4 else "")
