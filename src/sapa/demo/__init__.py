"""The first minutes: what the library does for a map, for features, in training, and what everything costs here."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree

import torch

from sapa.complexity import Cost, cost
from sapa.demo import motorcycle, report
from sapa.nn import UPSAMPLERS
from sapa.tables import Table

COMPARED = "nearest,bilinear,carafe,sapa_b,sapa_g"
CHANNELS, SIZE = 64, 32  # of the low-res map whose upsampling is timed

Tick = Callable[[str], None]


@dataclass(frozen=True)
class Demo:
    errors: dict[str, dict[str, float]]  # of the lifted disparity, by method
    features: dict[str, float]  # mean absolute error of the features of a photograph, by upsampler
    costs: dict[str, Cost]
    compared: Table  # of small nets, trained with one upsampler each
    page: Path


def steps() -> int:
    """How often `run` ticks."""
    return 2 + len(UPSAMPLERS) + len(COMPARED.split(","))


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
    compared = trained(folder / "compare", tick)
    page = folder / "report.html"
    page.write_text(report.render(lifted, draw(seen), costs, (CHANNELS, SIZE), compared), encoding="utf-8")
    errors = {of.name: of.error for of in seen.seen if of.error is not None}
    return Demo(lifted.errors(), errors, costs, compared, page)


def trained(folder: Path, tick: Tick) -> Table:
    """Train a small net for depth with each of a few upsamplers on scenes drawn on the spot, and write a page of it."""
    from sapa.tasks import comparison_page
    from sapa.tasks.compare import compare, table
    from sapa.tasks.depth import Depth
    from sapa.tasks.presets import PRESETS
    from sapa.tasks.spec import parse_all
    from sapa.tasks.watch import Watch

    class Ticker(Watch):
        def begin(self, label: str, seed: int, steps: int, done: int) -> None:
            tick(f"training with {label}")

    # anew each time, since the machine may be another
    rmtree(folder, ignore_errors=True)
    found = compare(Depth, PRESETS["depth"]["quick"], parse_all(COMPARED), [0], folder, watch=Ticker())
    comparison_page.write(found)
    return table(found)
