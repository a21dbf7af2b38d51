"""Compile everything, write bench/results/gpu.json, and make the tables of docs/gpu.md from it. Takes two minutes."""

import json

import torch
import triton
from rich.progress import track

from bench.gpu import gate, render
from bench.gpu.build import TARGETS

if __name__ == "__main__":
    todo = [(*configuration, target) for target in TARGETS for configuration in gate.configurations()]
    rows = [gate.row(*one) for one in track(todo, "compiling")]
    report = {"triton": triton.__version__, "torch": torch.__version__.split("+")[0], "kernels": rows}
    render.RESULTS.write_text(json.dumps(report, indent=1) + "\n")
    render.PAGE.write_text(render.page())
    for row in rows:
        for fault in gate.faults(row):
            print(row["target"], row["kernel"], row["layout"], row["dtype"], fault, sep=": ")
    print(render.RESULTS, render.PAGE, sep="\n")
