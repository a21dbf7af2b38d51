"""Calls with options drawn at random: which tile a launch takes on each target, and whether it spills.

`python -m bench.gpu.sample` writes bench/results/gpu_sample.json, from which docs/gpu.md tells. Ten minutes or more.
"""

from dataclasses import asdict
from random import Random
from typing import Any

from rich.progress import track

from bench import report
from bench.gpu import render
from bench.gpu.build import KERNELS, TARGETS, Problem, build, launched
from bench.gpu.cover import LARGE
from bench.gpu.gate import FORWARD, LEAST
from bench.gpu.inspect import inspect, spilled_bytes

CALLS, SEED = 800, 7
LAYOUTS = ("channels_last", "planar")


def draw(random: Random) -> tuple[str, Problem, str]:
    """A kernel, a call that launches it, and a target."""
    kernel, scale = random.choice([*KERNELS]), random.choice([1, 2, 2, 3, 4, 5, 6, 7, 8, 11, 13, 16, 20, 1.5, 2.5])
    side = int(LARGE / scale) // 2 * 2 if random.random() < 0.2 else random.choice([30, 32, 64])
    of_attend = not kernel.startswith("assemble") and (kernel != "scatter" or random.random() < 0.5)
    problem = Problem(
        C=random.choice([1, 3, 16, 19, 64, 100, 256, 256, 1024]),
        D=random.choice([1, 4, 16, 32, 32, 64, 128, 256, 300]) if of_attend else None,
        scale=scale,
        kernel_size=random.choice([(3, 3), (5, 5), (5, 5), (1, 3), (3, 5), (7, 7), (11, 11)]),
        groups=1 if of_attend else random.choice([1, 1, 4]),
        low=random.choice([*8 * [(side, side)], (side, 1), (1, 1)]),
        dtype=random.choice(["float32", "float32", "bfloat16", "float16", "float64"]),
        layout=random.choice(LAYOUTS),
        q_layout=random.choice([None, None, None, *LAYOUTS]),
        has_bias=random.random() < 0.4,
        normalize=random.choice(["softmax", "softmax", "relu", "sigmoid", "softplus", "none"]),
        border=random.choice(["zero", "mask"]),
    )
    return kernel, problem, random.choice([*TARGETS])


def sample(calls: int = CALLS) -> dict[str, Any]:
    """How many spill with the tile of the rules, and how many with the one that a launch takes."""
    random, told = Random(SEED), []
    counts = {"calls": calls, "first": 0, "taken": 0, "lanes": 0, "crowded": 0}
    for _ in track(range(calls), "compiling"):
        kernel, problem, target = draw(random)
        first = taken = build(kernel, problem, TARGETS[target])
        at_first = spilled_bytes(first, target)
        if at_first:
            taken = launched(kernel, problem, target)
            told.append({"kernel": kernel, "target": target, "first": at_first, "taken": spilled_bytes(taken, target)})
            told[-1]["call"] = asdict(problem)
            counts["first"] += 1
            counts["taken"] += told[-1]["taken"] > 0
        found = inspect(taken, target)
        counts["lanes"] += target.startswith("gfx") and found.spills > 0
        counts["crowded"] += found.occupancy < LEAST[kernel in FORWARD]
    return counts | {"spilling": told}


if __name__ == "__main__":
    head = report.begin(0, quick=False)
    path = report.save("gpu_sample", head | sample())
    render.PAGE.write_text(render.page())
    print(path, render.PAGE, sep="\n")
