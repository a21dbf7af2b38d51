"""What a program executes, read from the binary: instructions of a warp, and barriers at which warps wait.

Loops are those over blocks of channels; in `scatter`, over parts of the rows that it reads. Told by their products, of
which the compiler makes one instruction each. What is done only where a sum is NaN is left out, as far as it loops.
"""

import math
import re
from dataclasses import dataclass
from typing import Any

from bench.gpu.build import Problem, launched
from bench.gpu.gate import LAYOUTS, holds
from bench.gpu.inspect import disassembled

TARGET = "sm_80"
LABEL = re.compile(r"^(\.L_x_\d+):")
JUMP = re.compile(r"\bBRA `\((\.L_x_\d+)\)")
INSTRUCTION = re.compile(r"/\*[0-9a-f]{4,}\*/")
PRODUCT = re.compile(r"\bFFMA\b")
Pass = tuple[tuple[int, int, int], tuple[int, ...]]  # the sizes of its matrices, and how often it goes round
# the channels that the loops of each kernel go over, in the order of the program; `points` has those of queries outside
OVER = {"attend": "DC", "points": "C", "scatter": "C", "assemble": "C", "assemble_weights": "C"}


@dataclass(frozen=True)
class Loop:
    """From its label to the jump back, with all that is inside."""

    start: int
    end: int
    instructions: int
    products: int
    barriers: int

    def has(self, other: "Loop") -> bool:
        return self.start <= other.start and other.end < self.end


def measure() -> list[dict[str, Any]]:
    """For each kernel of the usual call, instructions for each high-res point, and barriers of a block of channels."""
    return [row(name, layout) for name in OVER for layout in LAYOUTS]


def row(name: str, layout: str) -> dict[str, Any]:
    problem = Problem(D=None if name.startswith("assemble") else Problem.D, layout=layout)
    compiled = launched(name, problem, TARGET)
    held = holds(compiled)
    points, programs, passes = (of_cells if name == "scatter" else of_points)(problem, held, OVER[name])
    each = [(math.prod(sizes) // held["threads"], trips) for sizes, trips in passes]
    total, barriers = executed(disassembled(compiled), each)
    instructions = round(total * programs * held["threads"] / 32 / points)
    return {"kernel": name, "layout": layout, "barriers": barriers, "instructions": instructions}


def of_points(problem: Problem, held: dict[str, int], over: str) -> tuple[int, int, list[Pass]]:
    """High-res points, programs for them, and what these do."""
    blocks = [(problem.C, held["BC"]) if one == "C" else (problem.D or 0, held["BD"]) for one in over]
    passes: list[Pass] = [((held["M"], held["T"], block), (math.ceil(size / block),)) for size, block in blocks]
    return held["M"], 1, passes


def of_cells(problem: Problem, held: dict[str, int], over: str) -> tuple[int, int, list[Pass]]:
    """Rows of the window, and the parts of the points of each; a program has one block of channels."""
    (Kh, Kw), S, N = problem.kernel_size, int(problem.scale), held["N"]
    parts = math.ceil(S * S * (N + Kw - 1) / held["M"])
    return S * S * N, math.ceil(problem.C / held["BC"]), [((N, held["M"], held["BC"]), (Kh, parts))]


def executed(text: str, passes: list[tuple[int, tuple[int, ...]]]) -> tuple[int, list[int]]:
    """Instructions of each warp, and barriers of each pass.

    A pass is a loop that has so many products and goes round so often, if it is inside others from the outside in.
    """
    found = loops(text)
    total = sum(bool(INSTRUCTION.search(line)) for line in text.splitlines())
    total -= sum(loop.instructions for loop in outermost(found))
    barriers = []
    for (products, trips), inner in zip(passes, innermost(found), strict=False):
        nest = [loop for loop in found if loop == inner or loop.has(inner)]
        if (inner.products, len(nest)) != (products, len(trips)):
            raise ValueError(
                f"{len(nest)} loops, one inside the other, around {inner}, not {products} products {trips}"
            )
        counts = [loop.instructions for loop in nest]
        own = [n - inside for n, inside in zip(counts, [*counts[1:], 0], strict=True)]
        total += sum(n * math.prod(trips[: depth + 1]) for depth, n in enumerate(own))
        barriers.append(inner.barriers)
    return total, barriers


def innermost(found: list[Loop]) -> list[Loop]:
    return [loop for loop in found if not any(loop.has(other) for other in found if other != loop)]


def outermost(found: list[Loop]) -> list[Loop]:
    return [loop for loop in found if not any(other.has(loop) for other in found if other != loop)]


def loops(text: str) -> list[Loop]:
    """In the order of the program."""
    lines = text.splitlines()
    labels = {match[1]: n for n, line in enumerate(lines) if (match := LABEL.match(line))}
    found = []
    for end, line in enumerate(lines):
        match = JUMP.search(line)
        # a program ends with a jump to itself
        if match and labels.get(match[1], end) < end - 1:
            body = [one for one in lines[labels[match[1]] : end + 1] if INSTRUCTION.search(one)]
            counts = (sum(bool(PRODUCT.search(one)) for one in body), sum("BAR.SYNC" in one for one in body))
            found.append(Loop(labels[match[1]], end, len(body), *counts))
    return sorted(found, key=lambda loop: (loop.start, -loop.end))
