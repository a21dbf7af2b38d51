"""The times of one case as a table for the terminal."""

from typing import Any

from rich.table import Table


def table(result: dict[str, Any]) -> Table:
    """Each function with its median, its quartiles, and how its time compares with that of attend."""
    shown = Table("function", box=None, pad_edge=False)
    for column in ("ms", "quartiles", "runs", "attend is"):
        shown.add_column(column, justify="right")
    times = result["times"]
    for name, time in times.items():
        if name == "gemm":
            continue
        ours = times["attend, trained" if name.endswith(", trained") else "attend"]["ms"]
        spread = f"{number(time['low'])} - {number(time['high'])}"
        shown.add_row(name, number(time["ms"]), spread, str(time["runs"]), versus(ours, time["ms"]))
    return shown


def title(result: dict[str, Any]) -> str:
    where = "1 thread" if result["threads"] == 1 else f"{result['threads']} threads"
    if result["device"] != "cpu":
        where = result["device"]
    return (
        f"x {list(result['shape'])} to twice the size, {result['layout']}, K = {result['kernel_size']}, "
        f"D = {result['embed_dim']}, {result['dtype']}, {where}"
    )


def notes(report: dict[str, Any]) -> str:
    """What stands below the table: the arithmetic rate, what is missing, and where this was measured."""
    case, machine = report["case"], report["machine"]
    share = case["gflops"] / case["gemm_gflops"]
    lines = [
        f"attend: {number(case['gflops'])} GFLOP/s, {share:.0%} of a matrix product's {number(case['gemm_gflops'])}",
        *(f"{name} left out: {reason}" for name, reason in case["left_out"].items()),
        f"{machine['processor']}, torch {machine['torch']}, sapa {machine['sapa']}, load {machine['load']}",
    ]
    ours, kernels = ("cpu", "C++") if case["device"] == "cpu" else ("triton", "Triton")
    if machine["backends"][ours] != "ready":
        lines.append(f"without the {kernels} kernels: {machine['backends'][ours]}")
    return "\n".join(lines)


def versus(ours: float, theirs: float) -> str:
    if ours == theirs:
        return ""
    return f"{number(theirs / ours)}x faster" if ours < theirs else f"{number(ours / theirs)}x slower"


def number(value: float) -> str:
    """Three digits, as a reader takes in: 0.0123, 1.23, 12.3, 123, 1234."""
    return f"{value:.3g}" if abs(value) < 100 else f"{value:.0f}"
