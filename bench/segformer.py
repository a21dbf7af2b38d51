"""A whole model with each upsampler: `python -m bench.segformer [--quick] [--seconds 5]` writes its results as JSON.

SegFormer-B1 with 150 classes on one picture of 512x512: the prediction, and a step of training with the loss at full
size and AdamW; beside the model as it was published, which interpolates. Memory is the peak of a fresh process.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch
from rich.progress import Progress

from bench import report
from bench.memory import ALLOCATOR, RESET, peak_since
from sapa import models
from sapa.bench.timing import Function, interleaved, threads

MODEL, SIZE, QUICK_SIZE, THREADS = "segformer_b1", 512, 64, 2
QUICK_NAMES = ["bilinear", "sapa_b"]


def functions_of(name: str, size: int) -> dict[str, Function]:
    """The prediction and a step of training, each of a model of its own."""
    torch.manual_seed(0)
    still, model = models.build(MODEL, name).eval(), models.build(MODEL, name).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    picture, labels = torch.randn(1, 3, size, size), torch.randint(150, (1, size, size))

    def predict() -> None:
        with torch.no_grad():
            still(picture)

    def step() -> None:
        model(picture, labels=labels).loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return {name: predict, f"{name}, trained": step}


def run(names: list[str], size: int, seconds: float, quick: bool) -> dict[str, Any]:
    result = report.begin(seconds, quick) | {"model": MODEL, "size": size, "threads": THREADS}
    result["parameters"] = {name: _parameters(name) for name in names}
    with Progress() as progress:
        task = progress.add_task("memory", total=2 * len(names))
        result["memory"] = {}
        for function in (key for name in names for key in (name, f"{name}, trained")):
            result["memory"][function] = megabytes(function, size)
            progress.advance(task)
        task = progress.add_task("times", total=1)
        functions: dict[str, Function] = {}
        for name in names:
            functions |= functions_of(name, size)
        with threads(THREADS):
            result["times"] = interleaved(functions, seconds, lambda done: progress.update(task, completed=done))
    return result


def _parameters(name: str) -> int:
    with torch.device("meta"):
        return sum(p.numel() for p in models.build(MODEL, name).parameters())


def megabytes(function: str, size: int) -> float | None:
    """The most that a call takes beside the model, after a first one; Linux alone can tell."""
    if not RESET.exists():
        return None
    command = [sys.executable, "-m", "bench.segformer", "--memory", json.dumps([function, size])]
    environment = os.environ | ALLOCATOR
    found = subprocess.run(command, capture_output=True, text=True, check=True, env=environment, cwd=report.ROOT)
    return round(int(found.stdout) / 2**20, 1)


def peak(function: str, size: int) -> int:
    call = functions_of(function.partition(",")[0], size)[function]
    with threads(THREADS):
        call()  # which makes the state of the optimizer
        return peak_since(call)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5.0, help="for each function")
    parser.add_argument("--quick", action="store_true", help="a small picture and two upsamplers")
    parser.add_argument("--output", type=Path, default=report.RESULTS, help="folder of the results")
    parser.add_argument("--memory", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.memory:
        print(peak(*json.loads(arguments.memory)))
        return
    names = QUICK_NAMES if arguments.quick else models.fitting(MODEL)
    size = QUICK_SIZE if arguments.quick else SIZE
    print(report.save("segformer", run(names, size, arguments.seconds, arguments.quick), arguments.output))


if __name__ == "__main__":
    main()
