"""Every kernel of the table, built for every target, and what must hold for it."""

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any

from bench.gpu.build import TARGETS, Problem, build
from bench.gpu.inspect import Found, inspect
from sapa.backends.triton.table import TILES

FORWARD = ("attend", "assemble")
LEAST = {True: 0.5, False: 0.25}  # occupancy of a forward and of a backward kernel
NUMBERS = 4  # in one load
ITEMSIZE = {"float32": 4, "bfloat16": 2}


def configurations() -> Iterator[tuple[str, str, int, str]]:
    """Kernel, memory format, place in the table, dtype. Half types are built where most of the time goes."""
    for name, formats in TILES.items():
        for layout, tiles in formats.items():
            for place in range(len(tiles)):
                yield name, layout, place, "float32"
    yield "attend", "channels_last", 0, "bfloat16"


def row(name: str, layout: str, place: int, dtype: str, target: str) -> dict[str, Any]:
    tile = TILES[name][layout][place]
    compiled = build(name, tile, Problem(dtype=dtype, layout=layout), TARGETS[target])
    found = inspect(compiled, target)
    head = {"kernel": name, "layout": layout, "dtype": dtype, "target": target, "tile": asdict(tile)}
    # JSON knows no other keys than strings
    return head | asdict(found) | {"loads": {str(width): n for width, n in sorted(found.loads.items())}}


def faults(row: dict[str, Any]) -> list[str]:
    """What is wrong with a row, in words."""
    wrong = []
    least = LEAST[row["kernel"] in FORWARD]
    if row["spills"]:
        wrong.append(f"spills {row['spills']}")
    if row["occupancy"] < least:
        wrong.append(f"occupancy {row['occupancy']:.0%} with {row['registers']} registers, at least {least:.0%}")
    # a window that is shifted by a column is not aligned: planar maps are loaded 4 bytes a thread, side by side
    widest = NUMBERS * ITEMSIZE[row["dtype"]]
    if row["layout"] == "channels_last" and max(map(int, row["loads"])) < widest:
        wrong.append(f"no load of {widest} bytes: {row['loads']}")
    return wrong


def rows(targets: Iterable[str] = TARGETS) -> Iterator[dict[str, Any]]:
    for target in targets:
        for configuration in configurations():
            yield row(*configuration, target)


__all__ = ["Found", "configurations", "faults", "row", "rows"]
