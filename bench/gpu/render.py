"""The tables of docs/gpu.md, from bench/results/gpu.json and from the model."""

import json
from typing import Any

from bench import report
from bench.gpu import cover, model
from bench.gpu.build import Problem
from bench.gpu.gate import FORWARD, LEAST, wide_bytes, wide_share
from bench.gpu.model import GPUS, Shape
from bench.render import table
from sapa.bench.show import number

PAGE = report.ROOT / "docs" / "gpu.md"
RESULTS = report.RESULTS / "gpu.json"
POINTS = 128 * 128  # of the main shape, [1, 256, 64, 64] to twice the size
SHAPES = {"float32": Shape(), "bfloat16": Shape(itemsize=2), "float32, C = 2048": Shape(C=2048)}


def kernels(found: dict[str, Any]) -> str:
    """The table of tiles, as they are on the first target; what is cut on another one has a star."""
    held, cells = {}, {}
    for row in found["kernels"]:
        if row["case"]:
            continue
        notes = [row["dtype"]] * (row["dtype"] != "float32") + [f"scale {row['scale']}"] * (row["scale"] != 2)
        notes += [f"D = {row['D']}"] * (row["D"] not in (None, Problem.D)) + ["with a bias"] * row["bias"]
        notes += ["second tile"] * (row["place"] > 0)
        call = ", ".join([f"`{row['kernel']}`", *notes]), row["layout"]
        own = row["holds"]
        own = [*(str(own.get(key, "")) for key in "NMT"), str(own["BC"]), str(own.get("BD", "")), str(own["threads"])]
        head = (*call, *held.setdefault(call, own))
        cells[head, row["target"]] = (
            f"{row['registers']} / {row['shared'] / 1024:.3g} / {row['occupancy']:.0%} / "
            f"{wide_share(row['loads'], wide_bytes(row, is_of_points=False)):.0%}"
        ) + " *" * (held[call] != own)
    spilled = sum(row["spills"] > 0 for row in found["kernels"])
    note = (
        f"{len(found['kernels'])} binaries in this table and the next, of which {spilled or 'none'} spill registers. "
    )
    made = f"Made by triton {found['triton']} as it comes with torch {found['torch']}.\n"
    head = ["kernel", "format", "cells", "points", "window", "C", "D", "threads"]
    return by_target(head, [head for head, _ in cells], cells) + "\n" + note + made


def cases(found: dict[str, Any]) -> str:
    """What the cases are, and registers / occupancy of each kernel."""
    meaning = [[case, meaning_of(problem)] for case, problem in (cover.ATTEND | cover.ASSEMBLE).items()]
    heads, cells = [], {}
    for row in found["kernels"]:
        if not row["case"]:
            continue
        limit = f"{LEAST[row['kernel'] in FORWARD]:.0%}"
        name = "`scatter`, dk" if row["kernel"] == "scatter_keys" else f"`{row['kernel']}`"
        if (row["kernel"], row["case"]) in cover.OTHER_SCALES:
            name += f", scale {row['scale']}"
        heads.append((name, row["case"], limit))
        cells[heads[-1], row["target"]] = f"{row['registers']} / {row['occupancy']:.0%}"
    return table(["case", "call"], meaning) + "\n" + by_target(["kernel", "case", "limit"], heads, cells)


def by_target(head: list[str], rows: list[tuple[str, ...]], cells: dict[tuple[tuple[str, ...], str], str]) -> str:
    targets = list(dict.fromkeys(target for _, target in cells))
    return table(
        [*head, *targets], [[*row, *(cells[row, target] for target in targets)] for row in dict.fromkeys(rows)]
    )


def meaning_of(problem: Problem) -> str:
    is_assemble = problem.D is None
    layout = f"{problem.layout}, q {problem.q_layout}" if problem.q_layout else problem.layout
    what = [problem.dtype, layout, f"scale {problem.scale}", "K = {} x {}".format(*problem.kernel_size)]
    what += [f"C = {problem.C}", f"G = {problem.groups}" if is_assemble else f"D = {problem.D}"]
    if not is_assemble:
        what += [f"normalize {problem.normalize}", f"border {problem.border}"] + ["bias"] * problem.has_bias
    return ", ".join(what + ["offsets of 64 bits"] * (problem.low[0] > 64))


def traffic() -> str:
    rows = []
    for name, shape in SHAPES.items():
        ways = {
            "forward": (
                *(model.forward_bytes(shape), model.flops(shape), model.executed(shape)),
                *(model.official_forward_bytes(shape), 0),
            ),
            "backward": (
                *(model.backward_bytes(shape), model.backward_flops(shape), model.backward_executed(shape)),
                *(model.official_backward_bytes(shape), model.official_atomics(shape)),
            ),
        }
        for way, (moved, needed, executed, official, atomics) in ways.items():
            times = [number(1e6 * POINTS * model.roofline(moved, needed, gpu)) for gpu in GPUS]
            cells = [number(moved), f"{needed:,}", f"{executed:,}", *times, number(official), f"{atomics:,}"]
            rows.append([name, way, *cells])
    times = [f"{gpu}, µs" for gpu in GPUS]
    head = ["maps", "", "bytes", "FLOPs", "executed", *times, "official bytes", "official atomics"]
    return table(head, rows)


def loops(found: dict[str, Any]) -> str:
    """Instructions of a warp for each point, of which multiplications with a sum; barriers of a block in each loop."""
    rows, shape = [], Shape()
    for row in found["loops"]:
        products = {"attend": shape.C + shape.D, "points": shape.C + 2 * shape.D}.get(row["kernel"], shape.C)
        cells = [f"`{row['kernel']}`", row["layout"], f"{row['instructions']:,}", number(shape.P * products / 32)]
        time = number(1e6 * POINTS * model.issued(row["instructions"]))
        bytes_loaded = model.loaded(row["kernel"], shape)
        from_cache = number(1e6 * POINTS * bytes_loaded / model.A100_CACHE)
        barriers = " / ".join(map(str, row["barriers"]))
        rows.append([*cells, barriers, time, f"{bytes_loaded:,.0f}", from_cache])
    head = ["kernel", "format", "instructions", "needed", "barriers", "A100, µs", "bytes loaded", "A100, µs"]
    return table(head, rows)


def host(found: dict[str, Any]) -> str:
    head = ["call", "launches", "the first like it, µs", "any later one, µs", "of Triton besides, µs"]
    rows = [
        [f"`{row['call']}`", str(row["launches"]), *(number(row[way]) for way in ("first", "again", "triton"))]
        for row in found["host"]
    ]
    return table(head, rows) + f"\nProcessor: {found['machine']['processor']}.\n"


def loads(found: dict[str, Any]) -> str:
    """Of each map: how often a program loads a number, and how many programs load it."""
    rows = []
    for call in found["calls"]:
        ratios = {
            name: " / ".join(map(number, (one["loads"] / one["of_programs"], one["of_programs"] / one["numbers"])))
            for name, one in call["maps"].items()
        }
        sizes = [str(size) for size in (call["scale"], call["kernel_size"][0], call["C"], call["D"])]
        rows.append([f"`{call['kernel']}`", call["layout"], *sizes, *(ratios.get(name, "") for name in "qkvgw")])
    return table(["kernel", "format", "scale", "K", "C", "D", "q", "k", "v", "g", "w"], rows)


def sample(found: dict[str, Any]) -> str:
    kept = ", ".join(
        f"`{row['kernel']}` for {row['target']}, {row['taken']} bytes" for row in found["spilling"] if row["taken"]
    )
    return (
        f"Of {found['calls']} calls for the five targets with options drawn at random (`python -m bench.gpu.sample`: "
        f"scales from 1 to 20, all types), {found['first']} spill with the tile of the rules and "
        f"{found['taken'] or 'none'} with the one that a launch takes{f' ({kept})' if kept else ''}; "
        f"{found['crowded'] or 'none'} miss their occupancy. On gfx942, {found['lanes']} keep some scalar registers in "
        f"lanes of vector registers, which costs instructions and no memory.\n"
    )


def page() -> str:
    """docs/gpu.md as it should be."""
    found = json.loads(RESULTS.read_text())
    sections = {"kernels": kernels(found), "cases": cases(found), "host": host(found), "traffic": traffic()}
    sections |= {
        "loops": loops(found),
        "sample": sample(report.load("gpu_sample")),
        "loads": loads(report.load("gpu_loads")),
    }
    return report.filled(PAGE, "gpu", sections)
