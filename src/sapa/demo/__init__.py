"""The first minute: what the library does for a map, for features, and what everything costs on this machine."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from sapa.complexity import Cost, cost
from sapa.demo import motorcycle, report
from sapa.nn import UPSAMPLERS

CHANNELS, SIZE = 64, 32  # of the low-res map whose upsampling is timed

Tick = Callable[[str], None]


@dataclass(frozen=True)
class Demo:
    errors: dict[str, dict[str, float]]  # of the lifted disparity, by method
    features: dict[str, float]  # mean absolute error of the features of a photograph, by upsampler
    costs: dict[str, Cost]
    page: Path


def steps() -> int:
    """How often `run` ticks."""
    return 2 + len(UPSAMPLERS)


def run(folder: Path, tick: Tick = lambda step: None) -> Demo:
    """Do all of it and write `report.html`, and `see.html` for the features, into the folder."""
    from skimage import data

    from sapa.viewer.figures import draw
    from sapa.viewer.page import write
    from sapa.viewer.report import examine

    folder.mkdir(parents=True, exist_ok=True)
    with torch.inference_mode():
        tick("the disparity of a motorcycle")
        lifted = motorcycle.lift()
        tick("the features of a photograph")
        seen = examine(data.astronaut()[:320, 64:384])
        write(seen, folder / "see.html")
    costs = {}
    for name in UPSAMPLERS:
        tick(f"the cost of {name}")
        costs[name] = cost(name, channels=CHANNELS, size=SIZE)
    page = folder / "report.html"
    page.write_text(report.render(lifted, draw(seen), costs, (CHANNELS, SIZE)), encoding="utf-8")
    errors = {of.name: of.error for of in seen.seen if of.error is not None}
    return Demo(lifted.errors(), errors, costs, page)
