"""What was promised for the main shape, and what is measured: every ratio from one run with everything in it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

import sapa
from bench import memory
from sapa.bench import Case
from sapa.bench.peers import GEMM, SCALE, peers
from sapa.bench.timing import Function, interleaved, samples, summary, threads

TINY = (1, 8, 4, 4)
ROUNDS = 5
Times = dict[str, dict[str, float]]


@dataclass(frozen=True)
class Target:
    """`measured` takes "ms", or "low" and "high" of one side and the other, so that the spread of a ratio shows."""

    what: str
    limit: float
    at_least: bool
    unit: str
    measured: Callable[[Times, str, str], float]


def ratio(above: str, below: str) -> Callable[[Times, str, str], float]:
    return lambda times, a, b: times[above][a] / times[below][b]


def difference(left: str, right: str) -> Callable[[Times, str, str], float]:
    return lambda times, a, b: 1e3 * (times[left][a] - times[right][b])


def targets(case: Case) -> list[Target]:
    share = case.flops() / (2 * GEMM**3)  # of the GEMM's operations
    return [
        Target("faster than the unfold form", 150, True, "x", ratio("unfold", "attend")),
        Target("of the time of bilinear, NCHW", 0.7, False, "x", ratio("attend", "bilinear")),
        Target(
            "of the time of bilinear, channels_last",
            *(1.5, False, "x", ratio("attend, channels_last", "bilinear, channels_last")),
        ),
        Target(
            "of the arithmetic rate of a GEMM", 0.6, True, "%", lambda t, a, b: share * t["gemm"][a] / t["attend"][b]
        ),
        Target(
            "forward and backward: faster than the unfold form's",
            *(60, True, "x", ratio("unfold, trained", "attend, trained")),
        ),
        Target("forward and backward: of the time of the forward", 4, False, "x", ratio("attend, trained", "attend")),
        Target("SAPA-B, the module: of the time of bilinear, NCHW", 1.6, False, "x", ratio("sapa_b", "bilinear")),
        Target("SAPA-B, the module: of the time of ConvTranspose2d", 1, False, "x", ratio("sapa_b", "conv_transpose")),
        Target("faster on two threads than on one", 1.8, True, "x", ratio("1 thread", "2 threads")),
        Target(
            "a call on [1, 8, 4, 4]: more than F.interpolate",
            30,
            False,
            "µs",
            difference("tiny attend", "tiny bilinear"),
        ),
    ]


def measure(case: Case, seconds: float) -> dict[str, Any]:
    """The rows of the table, the times they come from, and the memory of one forward."""
    torch.manual_seed(0)
    with threads(case.threads):
        times = interleaved(_functions(case), seconds)
        times |= interleaved(_tiny(), seconds)
    times |= _threads(case, seconds)
    rows = []
    for target in targets(case):
        row = {"what": target.what, "limit": target.limit, "at_least": target.at_least, "unit": target.unit}
        sides = {"value": ("ms", "ms"), "low": ("low", "high"), "high": ("high", "low")}
        rows.append(row | {key: round(target.measured(times, *pair), 4) for key, pair in sides.items()})
    extra = memory.extra(case)
    rows.append(
        {
            "what": "memory beside the output",
            "limit": 0.05,
            "at_least": False,
            "unit": "%",
            "value": extra.get("attend"),
        }
    )
    for row in rows:
        row["reached"] = reached(row)
    return {"targets": rows, "target_times": times, "memory": extra}


def reached(row: dict[str, Any]) -> bool | None:
    if row["value"] is None:
        return None
    return row["value"] >= row["limit"] if row["at_least"] else row["value"] <= row["limit"]


def _functions(case: Case) -> dict[str, Function]:
    dtype = getattr(torch, case.dtype)
    rows, points = (
        peers(case.shape, layout, case.kernel_size, case.embed_dim, dtype) for layout in ("NCHW", "channels_last")
    )
    B, C, h, w = case.shape
    module = (
        sapa.build("sapa_b", C, embed_dim=case.embed_dim, kernel_size=case.kernel_size).to(dtype).requires_grad_(False)
    )
    x, guide = torch.randn(case.shape, dtype=dtype), torch.randn(B, C, SCALE * h, SCALE * w, dtype=dtype)
    functions: dict[str, Function] = {name: rows[name].forward() for name in ("attend", "unfold", "bilinear", "gemm")}
    functions |= {f"{name}, channels_last": points[name].forward() for name in ("attend", "bilinear")}
    functions |= {f"{name}, trained": rows[name].trained() for name in ("attend", "unfold")}
    functions |= {"sapa_b": lambda: module(x, guide)}
    deconv = torch.nn.ConvTranspose2d(C, C, SCALE, SCALE, dtype=dtype).requires_grad_(False)
    return functions | {"conv_transpose": lambda: deconv(x)}


def _tiny() -> dict[str, Function]:
    found = peers(TINY, "NCHW", 5, 8, torch.float32)
    return {f"tiny {name}": found[name].forward() for name in ("attend", "bilinear")}


def _threads(case: Case, seconds: float) -> Times:
    """One thread and two in blocks, as changing the number in between costs time of its own."""
    function = peers(case.shape, case.layout, case.kernel_size, case.embed_dim, getattr(torch, case.dtype))[
        "attend"
    ].forward()
    found: dict[str, list[float]] = {"1 thread": [], "2 threads": []}
    for _ in range(ROUNDS):
        for number, name in enumerate(found, 1):
            with threads(number):
                found[name] += samples({name: function}, seconds / ROUNDS)[name]
    return {name: summary(values) for name, values in found.items()}
