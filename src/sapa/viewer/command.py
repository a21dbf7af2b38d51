"""`sapa see`: the texts of its options become maps and modules."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from torch import nn

from sapa.nn import Upsampler
from sapa.viewer import writer
from sapa.viewer.checkpoints import load
from sapa.viewer.report import DEFAULT, examine


def write_all(
    image: Path,
    names: Sequence[str],
    checkpoints: Iterable[str],
    outputs: Iterable[Path],
    *,
    scale: int,
    size: int,
    kernel_size: int | None,
    colours: str | None,
    tick: Callable[[str], None],
) -> list[Path]:
    """Make one report and write it in all forms; what cannot be written is said before anything is computed."""
    written = {path: writer(path) for path in outputs}
    modules: dict[str, str | nn.Module] = {name: name for name in names}
    for text in checkpoints:
        name, _, path = text.partition("=")
        if not path:
            raise ValueError(f"give --checkpoint as NAME=FILE, such as sapa_b=up.safetensors, not {text!r}.")
        modules[name] = load(name, path, scale=scale, kernel_size=kernel_size)
    if not names:
        # what needs no training, to compare with
        others = [name for name in DEFAULT if name not in modules and (name != "sapa_i" or _is_one_space(modules))]
        modules = {name: name for name in others} | modules
    report = examine(image, modules, scale=scale, size=size, colours=_channels(colours), tick=tick)
    for path, write in written.items():
        write(report, path)
    return list(written)


def _is_one_space(modules: dict[str, str | nn.Module]) -> bool:
    """Whether both maps will have the same channels, which SAPA-I compares one by one."""
    guided = [up for up in modules.values() if isinstance(up, Upsampler) and up.needs_guide]
    return all(up.channels == up.guide_channels for up in guided)


def _channels(text: str | None) -> list[int] | None:
    if text is None:
        return None
    parts = text.replace(" ", "").split(",")
    if not all(part.isdecimal() for part in parts):
        raise ValueError(f"give --colours as channels with commas between, such as 0,1,2, not {text!r}.")
    return list(map(int, parts))
