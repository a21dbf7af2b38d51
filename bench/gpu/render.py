"""The tables of docs/gpu.md, from bench/results/gpu.json and from the model."""

import json
from typing import Any

from bench import report
from bench.gpu import model
from bench.gpu.model import GPUS, Shape
from bench.render import table
from sapa.backends.triton.table import TILES
from sapa.bench.show import number

PAGE = report.ROOT / "docs" / "gpu.md"
RESULTS = report.RESULTS / "gpu.json"
POINTS = 128 * 128  # of the main shape, [1, 256, 64, 64] to twice the size
SHAPES = {"float32": Shape(), "bfloat16": Shape(itemsize=2), "float32, C = 2048": Shape(C=2048)}


def kernels(found: dict[str, Any]) -> str:
    targets = list(dict.fromkeys(row["target"] for row in found["kernels"]))
    cells: dict[tuple[str, ...], dict[str, str]] = {}
    for row in found["kernels"]:
        t = row["tile"]
        name = row["kernel"] if row["dtype"] == "float32" else f"{row['kernel']}, {row['dtype']}"
        tile = f"{t['points']} x {t['BC']}, {t['BD']}"
        place = cells.setdefault((f"`{name}`", row["layout"], tile), {})
        widest = max(map(int, row["loads"]))
        place[row["target"]] = f"{row['registers']} / {row['shared'] / 1024:.3g} / {row['occupancy']:.0%} / {widest}"
    rows = [[*head, *(place[target] for target in targets)] for head, place in cells.items()]
    spilled = sum(row["spills"] > 0 for row in found["kernels"])
    note = f"{len(found['kernels'])} binaries, of which {spilled or 'none'} spill registers. "
    made = f"Made by triton {found['triton']} as it comes with torch {found['torch']}.\n"
    return table(["kernel", "format", "points x C, D", *targets], rows) + "\n" + note + made


def traffic() -> str:
    rows = []
    tiles = {kernel: TILES[kernel]["channels_last"][0] for kernel in ("attend", "points", "values", "keys")}
    for name, shape in SHAPES.items():
        ways = {
            "forward": (
                *(model.forward_bytes(shape), model.flops(shape), model.executed(shape, tiles["attend"])),
                *(model.official_forward_bytes(shape), 0),
            ),
            "backward": (
                *(model.backward_bytes(shape), model.backward_flops(shape)),
                model.executed_backward(shape, tiles["points"], tiles["values"], tiles["keys"]),
                *(model.official_backward_bytes(shape), model.official_atomics(shape)),
            ),
        }
        for way, (moved, needed, executed, official, atomics) in ways.items():
            pairs = [(gpu, work) for gpu in GPUS for work in (needed, executed)]
            times = [number(1e6 * POINTS * model.roofline(moved, work, gpu)) for gpu, work in pairs]
            counts = [number(moved), f"{needed:,}", f"{executed:,}"]
            rows.append([name, way, *counts, *times, number(official), f"{atomics:,}"])
    times = [f"{gpu}, µs{note}" for gpu in GPUS for note in ("", ", as executed")]
    head = ["maps", "", "bytes", "FLOPs", "executed", *times, "official bytes", "official atomics"]
    return table(head, rows)


def page() -> str:
    """docs/gpu.md as it should be."""
    text = PAGE.read_text()
    for name, section in {"kernels": kernels(json.loads(RESULTS.read_text())), "traffic": traffic()}.items():
        begin, end = f"<!-- gpu:{name} -->\n", f"<!-- /gpu:{name} -->"
        before, rest = text.split(begin)
        text = before + begin + section + end + rest.split(end, 1)[1]
    return text
