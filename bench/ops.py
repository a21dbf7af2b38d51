"""attend beside what people use today: `python -m bench.ops [--quick] [--seconds 0.25]` writes bench/results/ops.json.

Every shape in both memory formats; then, at the main shape, one setting changed at a time; then the targets. Two peers
take most of the time: the unfold form, which is called few times, and the compiled loop, which is compiled at the
main shape alone.
"""

import argparse
from dataclasses import replace
from pathlib import Path

from rich.progress import track

from bench import report, targets
from sapa.bench import FORWARD, TRAINED, Case, measure
from sapa.bench.peers import LAYOUTS

MAIN = Case()
SHAPES = [
    *((1, 256, 32, 32), (1, 256, 64, 64), (4, 256, 64, 64), (1, 64, 128, 128)),
    *((1, 256, 100, 152), (2, 128, 57, 83), (1, 512, 16, 16)),
]
QUICK_SHAPES = [(1, 256, 32, 32), (1, 256, 64, 64), (1, 512, 16, 16)]
CHANGES = [
    *({"embed_dim": 64}, {"kernel_size": 3}, {"kernel_size": 7}),
    *({"dtype": "bfloat16"}, {"threads": 1}),
]


def base(quick: bool) -> list[Case]:
    return [Case(shape, layout) for shape in (QUICK_SHAPES if quick else SHAPES) for layout in LAYOUTS]


def variations(quick: bool) -> list[Case]:
    layouts = ["NCHW"] if quick else LAYOUTS
    return [replace(MAIN, layout=layout, **change) for change in CHANGES for layout in layouts]


def names_of(case: Case, quick: bool) -> list[str]:
    """What is timed in a case: everything, but slow peers only where they say something new."""
    left_out: set[str] = set()
    if case.layout != "NCHW":
        # the unfold form copies its maps into one format anyway
        left_out |= {"unfold, trained", "shift loop, trained"}
    if case.layout != "NCHW" and case.shape == MAIN.shape and replace(case, layout="NCHW") != MAIN:
        left_out |= {"unfold"}
    if quick or replace(case, layout="NCHW") != MAIN:
        left_out |= {"shift loop", "shift loop, trained"}
    if quick:
        left_out |= {"unfold, trained"} if case in base(quick) else {"unfold", "unfold, trained"}
    return [name for name in FORWARD + TRAINED if name not in left_out]


def run(seconds: float, quick: bool) -> dict:
    result = report.begin(seconds, quick)
    plan = {"base": base(quick), "variations": variations(quick)}
    todo = [(part, case) for part, cases in plan.items() for case in cases]
    result |= {part: [] for part in plan}
    for part, case in track(todo, "attend and its peers"):
        result[part].append(measure(case, names_of(case, quick), seconds))
    return result | targets.measure(MAIN, 4 * seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=0.25, help="for each function of each case")
    parser.add_argument("--quick", action="store_true", help="three shapes, and nothing slow")
    parser.add_argument("--output", type=Path, default=report.RESULTS, help="folder of the results")
    arguments = parser.parse_args()
    print(report.save("ops", run(arguments.seconds, arguments.quick), arguments.output))


if __name__ == "__main__":
    main()
