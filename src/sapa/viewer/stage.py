"""One stage of a model, with the maps that a photograph makes there."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from sapa.checks import suggest
from sapa.geometry import size_of
from sapa.surgery.command import example_of
from sapa.surgery.stages import Stage, stages
from sapa.viewer import photo as photos

LONGEST = 512  # side of the photograph that a model is given
CELL = (32, 32)  # which sides are a multiple of, as most models ask


def look(model: nn.Module, photo: Tensor, which: str | int | None, size: int) -> tuple[Stage, str]:
    """A stage of the model, the last if not said which, and how to call it.

    A page holds maps up to `size`: for stages with a larger result the photograph is made smaller.
    """
    longest = LONGEST
    while True:
        small = photos.fit(photo, photos.cells(size_of(photo), CELL, longest), CELL)
        found = stages(model, *example_of(model, small))
        number = _number(found, which)
        chosen = found[number]
        larger = max(chosen.size) / size
        if larger <= 1 or longest <= CELL[0]:
            return chosen, f"{chosen.name} (stage {number} of 0-{len(found) - 1})"
        longest = max(CELL[0], min(longest - CELL[0], int(longest / larger)))


def maps_of(stage: Stage, photo: Tensor) -> tuple[Tensor, Tensor]:
    """x and guide of the first sample; the photograph, where the stage has no guide of its own."""
    guide = photos.fit(photo, stage.size, (1, 1)) if stage.guide is None else stage.guide
    return stage.x[:1], guide[:1]


def beside(stage: Stage, others: dict[str, Any]) -> dict[str, Any]:
    """What the model does at this stage, and then the others."""
    name = stage.up if isinstance(stage.up, str) else stage.operator
    return {f"own {name}": stage.up} | {label: up for label, up in others.items() if up != stage.up}


def _number(found: Sequence[Stage], which: str | int | None) -> int:
    names = [stage.name for stage in found]
    if which is None:
        return len(found) - 1
    if which in names:
        return names.index(str(which))
    if str(which).isdecimal() and int(which) < len(found):
        return int(which)
    raise ValueError(f"see: the model has no stage {which!r}.{suggest(str(which), names)} Or give a number from 0.")
