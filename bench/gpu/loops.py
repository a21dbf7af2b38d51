"""What the loops of a kernel take, read from the binary: instructions of a warp, and barriers at which warps wait.

Loops are those over blocks of channels, over rows and over columns of the window; what stands beside them is left out.
"""

import math
import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from bench.gpu.build import TARGETS, Problem, build
from bench.gpu.gate import holds
from bench.gpu.inspect import disassembled

TARGET = "sm_80"
LABEL = re.compile(r"^(\.L_x_\d+):")
JUMP = re.compile(r"\bBRA `\((\.L_x_\d+)\)")
INSTRUCTION = re.compile(r"/\*[0-9a-f]{4,}\*/")
# the channels that the loops of each kernel go over, in the order of the program
OVER = {"attend": "DC", "points": "DCD", "scatter": "C", "assemble": "C", "assemble_weights": "C"}
LAYOUTS = ("channels_last", "planar")


@dataclass(frozen=True)
class Loop:
    """From its label to the jump back, with all that is inside."""

    start: int
    end: int
    instructions: int
    barriers: int


def measure() -> list[dict[str, Any]]:
    """For each kernel of the usual call, instructions for each high-res point, and barriers in the loop over taps."""
    return [row(name, layout) for name in OVER for layout in LAYOUTS]


def row(name: str, layout: str) -> dict[str, Any]:
    problem = Problem(D=None if name.startswith("assemble") else Problem.D, layout=layout)
    compiled = build(name, 0, problem, TARGETS[TARGET])
    held, found = holds(compiled), nests(disassembled(compiled))
    if len(found) != len(OVER[name]):
        raise ValueError(f"{name}, {layout}: {len(found)} loops over the window, not {len(OVER[name])}")
    total = 0
    for nest, channels in zip(found, OVER[name], strict=True):
        blocks = math.ceil(problem.C / held["BC"]) if channels == "C" else math.ceil((problem.D or 1) / held["BD"])
        # a kernel that shares its channels among programs has no loop over them
        total += executed(nest, (blocks, *problem.kernel_size)[-len(nest) :]) * (blocks if len(nest) == 2 else 1)
    each = total * held["threads"] / 32 / (held["cells"] * held["points"])
    return {"kernel": name, "layout": layout, "instructions": round(each), "barriers": [n[-1].barriers for n in found]}


def executed(nest: list[Loop], trips: tuple[int, ...]) -> int:
    """Instructions of loops inside one another, from the outside in, that go round so often."""
    if len(nest) != len(trips) or any(inner.end > outer.end for outer, inner in pairwise(nest)):
        raise ValueError(f"{len(nest)} loops that are not one inside the other, {len(trips)} times to go round")
    counts = [loop.instructions for loop in nest]
    own = [n - inner for n, inner in zip(counts, [*counts[1:], 0], strict=True)]
    return sum(n * math.prod(trips[: depth + 1]) for depth, n in enumerate(own))


def nests(text: str) -> list[list[Loop]]:
    """Loops that have others inside, each with the one inside it and so on, in the order of the program."""
    lines = text.splitlines()
    labels = {match[1]: n for n, line in enumerate(lines) if (match := LABEL.match(line))}
    loops = []
    for end, line in enumerate(lines):
        match = JUMP.search(line)
        if match and labels.get(match[1], end) < end:
            body = [one for one in lines[labels[match[1]] : end + 1] if INSTRUCTION.search(one)]
            loops.append(Loop(labels[match[1]], end, len(body), sum("BAR.SYNC" in one for one in body)))
    loops.sort(key=lambda loop: (loop.start, -loop.end))
    found: list[list[Loop]] = []
    for loop in loops:
        if found and loop.end < found[-1][0].end:
            found[-1].append(loop)
        else:
            found.append([loop])
    # a program ends with a jump to itself
    return [nest for nest in found if len(nest) > 1]
