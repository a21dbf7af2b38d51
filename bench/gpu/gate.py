"""Every kernel of the table and every case that covers its options, built as a launch on a target would take it, and
what must hold for it."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from bench.gpu import cover
from bench.gpu.build import Problem, launched
from bench.gpu.inspect import inspect
from sapa.backends.triton.table import TILES

FORWARD = ("attend", "assemble")
LEAST = {True: 0.5, False: 0.25}  # occupancy of a forward and of a backward kernel
NUMBERS = 4  # in a wide load; of a planar map, so many as a cell has side by side
LEAST_WIDE = 0.5  # of the bytes that the loads of a binary take
WRITES_POINTS = ("attend", "assemble", "points")
READS_POINTS_ALONE = ("scatter",)
LAYOUTS = ("channels_last", "planar")
HELD = ("N", "M", "T", "BC", "BD")  # cells, points, numbers of their window, channels
ITEMSIZE = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2}


@dataclass(frozen=True)
class Build:
    kernel: str
    problem: Problem
    place: int = 0  # in the table of tiles
    case: str = ""  # of the cover


def tiles() -> Iterator[Build]:
    """The table of tiles, in float32 at scale 2; and, where most of the time goes, half types, depth, larger scales."""
    for name, choices in TILES.items():
        for layout in LAYOUTS:
            problem = Problem(D=None if name.startswith("assemble") else Problem.D, layout=layout)
            yield from (Build(name, problem, place) for place in range(len(choices)))
    yield Build("attend", Problem(dtype="bfloat16"))
    yield from (Build(name, Problem(D=256)) for name in ("attend", "points"))
    yield Build("points", Problem(has_bias=True))
    yield from (Build(name, Problem(scale=4, layout="planar")) for name in ("attend", "points"))
    for layout in LAYOUTS:
        yield from (Build(name, Problem(scale=8, layout=layout)) for name in ("attend", "points"))
        yield from (Build("attend", Problem(scale=scale, layout=layout)) for scale in (16, 32))


def cases() -> Iterator[Build]:
    return (Build(kernel, cover.problem(kernel, case), case=case) for kernel, case in cover.cases())


def row(one: Build, target: str) -> dict[str, Any]:
    problem = one.problem
    compiled = launched(one.kernel, problem, target, one.place)
    found = asdict(inspect(compiled, target))
    head = {"kernel": one.kernel, "case": one.case, "layout": problem.layout, "dtype": problem.dtype}
    head |= {"scale": problem.scale, "D": problem.D, "bias": problem.has_bias, "place": one.place}
    head |= {"target": target, "holds": holds(compiled), "offsets": str(constant(compiled, "INDEX"))}
    # JSON knows no other keys than strings
    counts = {way: {str(width): n for width, n in sorted(found[way].items())} for way in ("loads", "once", "stores")}
    return head | found | counts


def constant(compiled: Any, name: str) -> Any:
    return compiled.src.constants[compiled.src.fn.arg_names.index(name),]


def holds(compiled: Any) -> dict[str, int]:
    """What one program holds: points, as so many of each of so many cells, channels, threads."""
    found = {name: constant(compiled, name) for name in HELD if name in compiled.src.fn.arg_names}
    return found | {"threads": compiled.metadata.num_warps * compiled.metadata.target.warp_size}


def wide_bytes(row: dict[str, Any]) -> int:
    numbers = NUMBERS if row["layout"] == "channels_last" else min(NUMBERS, row["scale"])
    return numbers * ITEMSIZE[row["dtype"]]


def wide_share(row: dict[str, Any]) -> float:
    """Of the bytes that loads take, each counted once, those in wide ones: of planar maps, loads of high-res points, as
    a window that is shifted by a column is not aligned."""
    is_all_aligned = row["layout"] == "channels_last" or row["kernel"] in READS_POINTS_ALONE
    loads = row["loads"] if is_all_aligned else row["once"]
    taken = {int(width): int(width) * n for width, n in loads.items()}
    return sum(n for width, n in taken.items() if width >= wide_bytes(row)) / sum(taken.values())


def faults(row: dict[str, Any]) -> list[str]:
    """What is wrong with a row, in words."""
    wrong = []
    least = LEAST[row["kernel"] in FORWARD]
    if row["spills"]:
        wrong.append(f"spills {row['spills']}")
    if row["occupancy"] < least:
        wrong.append(f"occupancy {row['occupancy']:.0%} with {row['registers']} registers, at least {least:.0%}")
    if row["case"]:
        return wrong
    if wide_share(row) < LEAST_WIDE:
        wrong.append(f"{wide_share(row):.0%} in loads of {wide_bytes(row)} bytes or more: {row['loads']}")
    if row["kernel"] in WRITES_POINTS and max(map(int, row["stores"])) <= ITEMSIZE[row["dtype"]]:
        wrong.append(f"no store of more than one number: {row['stores']}")
    return wrong
