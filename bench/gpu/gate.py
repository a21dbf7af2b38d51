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
NUMBERS = 4  # in a wide load
LEAST_WIDE = 0.5  # of the bytes that the loads of a binary take; unless others are next to nothing:
FEW_NARROW = 0.01  # of its instructions, where windows of planar maps are little of what is loaded:
LARGEST_IN_PAIRS = 5  # the scale up to which a cell takes a column more
WRITES_POINTS = ("attend", "assemble", "points")
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


def wide_bytes(row: dict[str, Any], is_of_points: bool) -> int:
    """Of a planar map, high-res points of a cell are side by side; a window begins at an even column at best."""
    planar = min(NUMBERS, int(row["scale"])) if is_of_points else 2
    return (NUMBERS if row["layout"] == "channels_last" else planar) * ITEMSIZE[row["dtype"]]


def wide_share(loads: dict[str, int], wide: int) -> float:
    """Of the bytes that loads take, each counted once, those in wide ones."""
    taken = {int(width): int(width) * n for width, n in loads.items()}
    return sum(n for width, n in taken.items() if width >= wide) / sum(taken.values())


def narrow_share(row: dict[str, Any], wide: int) -> float:
    """Loads that are not wide, among the instructions."""
    return sum(n for width, n in row["loads"].items() if int(width) < wide) / row["instructions"]


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
    window, points = (wide_bytes(row, is_of_points) for is_of_points in (False, True))
    share = wide_share(row["loads"], window)
    is_large = row["layout"] == "planar" and row["scale"] > LARGEST_IN_PAIRS
    if share < LEAST_WIDE and not (is_large and narrow_share(row, window) <= FEW_NARROW):
        wrong.append(f"{share:.0%} in loads of {window} bytes or more: {row['loads']}")
    # in `scatter` these are weights, of which it takes some taps of each point
    if not row["once"]:
        wrong.append("no load of what one program alone needs")
    elif row["layout"] == "planar" and row["kernel"] != "scatter" and wide_share(row["once"], points) < LEAST_WIDE:
        wrong.append(f"high-res maps in loads of less than {points} bytes: {row['once']}")
    if row["kernel"] in WRITES_POINTS and max(map(int, row["stores"])) < points:
        wrong.append(f"no store of {points} bytes: {row['stores']}")
    return wrong
