"""`sapa see`: the texts of its options become maps and modules."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from torch import nn

from sapa.nn import Upsampler
from sapa.surgery import command as models
from sapa.viewer import writer
from sapa.viewer.checkpoints import load, read
from sapa.viewer.report import DEFAULT, examine, examine_model


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
    model: str | None,
    weights: Path | None,
    stage: str | None,
    tick: Callable[[str], None],
) -> list[Path]:
    """Make one report and write it in all forms; what cannot be written is said before anything is computed."""
    written = {path: writer(path) for path in outputs}
    if model is None and (weights is not None or stage is not None):
        raise ValueError("--weights and --stage belong to --model; give it, too.")
    modules: dict[str, str | nn.Module] = {name: name for name in names}
    for text in checkpoints:
        name, _, path = text.partition("=")
        if not path:
            raise ValueError(f"give --checkpoint as NAME=FILE, such as sapa_b=up.safetensors, not {text!r}.")
        modules[name] = load(name, path, scale=scale, kernel_size=kernel_size)
    if model is None and not names:
        # what needs no training, to compare with
        others = [name for name in DEFAULT if name not in modules and (name != "sapa_i" or _is_one_space(modules))]
        modules = {name: name for name in others} | modules
    if model is None:
        report = examine(image, modules, scale=scale, size=size, colours=_channels(colours), tick=tick)
    else:
        tick(model)
        made, chosen = _model(model, weights), modules or None
        report = examine_model(image, made, stage, chosen, size=size, colours=_channels(colours), tick=tick)
    for path, write in written.items():
        write(report, path)
    return list(written)


def _model(name: str, weights: Path | None) -> nn.Module:
    model = models.load(name)
    if weights is not None:
        try:
            model.load_state_dict(read(weights))
        except RuntimeError as error:
            raise ValueError(f"{weights} does not fit {name}: {error}") from error
    return model


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
