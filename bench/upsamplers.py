"""Every upsampler side by side: `python -m bench.upsamplers [--quick] [--seconds 0.5]` writes its results as JSON.

Each is built by its name with C channels and called with a guide; forward, and forward and backward to the maps and
the parameters, in both memory formats.
"""

import argparse
from pathlib import Path
from typing import Any

import torch
from rich.progress import Progress

import sapa
from bench import report
from sapa.bench.peers import LAYOUTS, SCALE
from sapa.bench.timing import Function, interleaved, threads

SHAPE = (1, 256, 64, 64)
QUICK_SHAPE = (1, 256, 32, 32)
THREADS = 2


def functions_of(name: str, shape: tuple[int, int, int, int], layout: str) -> dict[str, Function]:
    B, C, h, w = shape
    up = sapa.build(name, C).to(memory_format=LAYOUTS[layout])  # type: ignore[call-overload]
    frozen = sapa.build(name, C).to(memory_format=LAYOUTS[layout]).requires_grad_(False)  # type: ignore[call-overload]
    sizes = shape, (B, C, SCALE * h, SCALE * w)
    maps = [torch.randn(size).contiguous(memory_format=LAYOUTS[layout]) for size in sizes]
    leaves = [x.clone().requires_grad_() for x in maps]
    g = torch.randn_like(maps[1])
    return {
        name: lambda: frozen(*maps),
        f"{name}, trained": lambda: torch.autograd.grad(up(*leaves), [*leaves, *up.parameters()], g, allow_unused=True),
    }


def run(shape: tuple[int, int, int, int], seconds: float, quick: bool) -> dict[str, Any]:
    result = report.begin(seconds, quick) | {"shape": shape, "threads": THREADS}
    result["parameters"] = {
        name: sum(p.numel() for p in sapa.build(name, shape[1]).parameters()) for name in sapa.UPSAMPLERS
    }
    result["times"] = {}
    with threads(THREADS), Progress() as progress:
        for layout in LAYOUTS:
            torch.manual_seed(0)
            task = progress.add_task(layout, total=1)
            functions: dict[str, Function] = {}
            for name in sapa.UPSAMPLERS:
                functions |= functions_of(name, shape, layout)
            result["times"][layout] = interleaved(
                functions, seconds, tick=lambda done, task=task: progress.update(task, completed=done)
            )
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=0.5, help="for each function")
    parser.add_argument("--quick", action="store_true", help="smaller maps")
    parser.add_argument("--output", type=Path, default=report.RESULTS, help="folder of the results")
    arguments = parser.parse_args()
    shape = QUICK_SHAPE if arguments.quick else SHAPE
    print(report.save("upsamplers", run(shape, arguments.seconds, arguments.quick), arguments.output))


if __name__ == "__main__":
    main()
