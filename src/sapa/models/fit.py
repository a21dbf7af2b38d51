"""Which upsamplers can stand at the steps of a model, and what is said of those that cannot."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, cast

import torch

from sapa.checks import suggest
from sapa.nn import UPSAMPLERS, MaxUnpool, Upsampler

Up = Callable[[int, int], Upsampler]
"""Makes the upsampler of one step from its channels and guide_channels."""


class Model(NamedTuple):
    paper: str  # its name in the tables of the paper
    home: str  # the module that builds it
    own: str  # the upsampler it was published with
    weights: str  # of its backbone: a name on the hub of transformers, or one of torchvision's
    stages: tuple[tuple[int, int], ...]  # channels and guide_channels of each step that is replaced
    is_pooled: bool = False  # whether the guides are what the encoder makes smaller by 2x2 max pooling


def all_that_fit(model: Model) -> list[str]:
    return [name for name in UPSAMPLERS if not _objection(model, name, model.stages)]


def chosen(name: str, model: Model, upsampler: str | Callable[..., Upsampler]) -> Up:
    """What builds the upsampler at each step, or an error that says why this one does not fit and which do."""
    if isinstance(upsampler, str) and upsampler not in UPSAMPLERS:
        raise KeyError(f"no upsampler {upsampler!r}.{suggest(upsampler, UPSAMPLERS)}")

    def up(channels: int, guide_channels: int) -> Upsampler:
        reason = _objection(model, upsampler, [(channels, guide_channels)])
        if reason:
            told = upsampler if isinstance(upsampler, str) else getattr(upsampler, "func", upsampler).__name__
            raise ValueError(f"{name}: {told} does not fit. {reason} What fits: {', '.join(all_that_fit(model))}.")
        return _factory(upsampler)(channels, guide_channels)

    for channels, guide_channels in model.stages:
        with torch.device("meta"):
            up(channels, guide_channels)
    return up


def _objection(model: Model, upsampler: str | Callable[..., Upsampler], stages: Sequence[tuple[int, int]]) -> str:
    try:
        with torch.device("meta"):
            made = [_factory(upsampler)(*channels) for channels in stages]
    except ValueError as reason:
        return str(reason)
    if not model.is_pooled and any(isinstance(up, MaxUnpool) for up in made):
        return "It undoes a max pooling of the guide, and the encoder of this model does not make one."
    return ""


def _factory(upsampler: str | Callable[..., Upsampler]) -> Up:
    return cast(Up, UPSAMPLERS[upsampler] if isinstance(upsampler, str) else upsampler)
