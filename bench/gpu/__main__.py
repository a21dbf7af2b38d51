"""Compile everything, write bench/results/gpu.json, and make the tables of docs/gpu.md from it. Takes five minutes."""

import json

import torch
import triton
from rich.progress import track

from bench.gpu import gate, loops, render
from bench.gpu.build import TARGETS
from bench.gpu.host import measure
from sapa.bench import machine

if __name__ == "__main__":
    todo = [(one, target) for target in TARGETS for one in (*gate.tiles(), *gate.cases())]
    rows = [gate.row(*one) for one in track(todo, "compiling")]
    lines = ",\n  ".join(map(json.dumps, rows))
    head = {
        "triton": triton.__version__,
        "torch": torch.__version__.split("+")[0],
        "machine": machine(),
        "host": measure(),
        "loops": loops.measure(),
    }
    about = ",\n ".join(f'"{key}": {json.dumps(value)}' for key, value in head.items())
    render.RESULTS.write_text(f'{{\n {about},\n "kernels": [\n  {lines}\n ]\n}}\n')
    render.PAGE.write_text(render.page())
    for row in rows:
        for fault in gate.faults(row):
            print(row["target"], row["kernel"], row["case"] or row["layout"], row["dtype"], fault, sep=": ")
    print(render.RESULTS, render.PAGE, sep="\n")
