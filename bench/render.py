"""Write docs/performance.md and its picture from bench/results: `python -m bench.render`."""

import hashlib
from typing import Any

from bench import report
from sapa.bench.show import number

PAGE = report.ROOT / "docs" / "performance.md"
PICTURE = report.ROOT / "docs" / "img" / "performance.svg"
PEERS = ("attend", "bilinear", "bicubic", "conv_transpose", "grid_sample", "unfold", "shift loop", "copy")
DEFAULTS = {"embed_dim": ("D", 32), "kernel_size": ("K", 5), "dtype": ("dtype", "float32"), "threads": ("threads", 2)}
VARIED = tuple(f"{name}{suffix}" for suffix in ("", ", trained") for name in ("attend", "bilinear", "unfold"))
COMPARISON = ("attend / bilinear", "unfold / attend", "share of GEMM")
Report = dict[str, Any]


def table(head: list[str], rows: list[list[str]]) -> str:
    numeric = [all(row[i][:1].isdigit() or row[i] == "" for row in rows) for i in range(len(head))]
    lines = [head, ["---:" if right else "---" for right in numeric], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def targets(ops: Report) -> str:
    rows = []
    for row in ops["targets"]:
        sign = "≥" if row["at_least"] else "≤"
        spread = f" ({amount(row, 'low')} to {amount(row, 'high')})" if "low" in row else ""
        value = "not measured" if row["value"] is None else amount(row, "value") + spread
        answer = {True: "yes", False: "**no**", None: ""}[row["reached"]]
        rows.append([row["what"], f"{sign} {amount(row, 'limit')}", value, answer])
    missed = sum(row["reached"] is False for row in ops["targets"])
    result = f"{missed} of {len(rows)} are not reached." if missed else f"All {len(rows)} are reached."
    shares = ", ".join(f"{name} {share:.1%}" for name, share in ops["memory"].items())
    memory = f" Memory beside the output, as a share of it: {shares}." if shares else ""
    return table(["attend at [1, 256, 64, 64]", "promised", "measured", "reached"], rows) + f"\n{result}{memory}\n"


def amount(row: Report, key: str) -> str:
    return f"{100 * row[key]:.3g} %" if row["unit"] == "%" else f"{number(row[key])} {row['unit']}"


def cases(ops: Report) -> str:
    where = "Milliseconds, twice the size, K = 5, D = 32, float32, 2 threads."
    parts = [
        f"{where}\n\n{case_table(ops['base'], '')}",
        f"Forward and backward:\n\n{case_table(ops['base'], ', trained')}",
    ]
    slower = [case for case in ops["base"] if ratio(case, "attend", "bilinear") > 1]
    if slower:
        worst = max(slower, key=lambda case: ratio(case, "attend", "bilinear"))
        trained = [ratio(case, "attend, trained", "bilinear, trained") for case in ops["base"]]
        parts.append(
            f"Forward, `attend` is slower than bilinear in {len(slower)} of {len(ops['base'])} cases, most at "
            f"{worst['shape']} {worst['layout']}: {number(ratio(worst, 'attend', 'bilinear'))} times its time; forward "
            f"and backward in {sum(r > 1 for r in trained)}, by up to {number(max(trained))} times.\n"
        )
    compiled = [s for case in ops["base"] for s in case["compile_seconds"].values()]
    if compiled:
        parts.append(
            f"The shift loop is measured at one shape: it is compiled for each, which took {min(compiled):.0f} to "
            f"{max(compiled):.0f} seconds.\n"
        )
    return "\n".join(parts)


def case_table(found: list[Report], suffix: str) -> str:
    names = [name for name in PEERS if any(name + suffix in case["times"] for case in found)]
    rows = []
    for case in found:
        times = [number(case["times"][name + suffix]["ms"]) if name + suffix in case["times"] else "" for name in names]
        rows.append([str(case["shape"]), case["layout"], *times, *comparison(case, suffix)])
    return table(["x", "format", *names, *COMPARISON[: len(comparison(found[0], suffix))]], rows)


def comparison(case: Report, suffix: str) -> list[str]:
    result = [
        number(ratio(case, f"attend{suffix}", f"bilinear{suffix}")),
        number(ratio(case, f"unfold{suffix}", f"attend{suffix}")) if f"unfold{suffix}" in case["times"] else "",
    ]
    return result if suffix else [*result, f"{case['gflops'] / case['gemm_gflops']:.0%}"]


def ratio(case: Report, above: str, below: str) -> float:
    return case["times"][above]["ms"] / case["times"][below]["ms"]


def variations(ops: Report) -> str:
    rows = []
    for case in ops["variations"]:
        change = ", ".join(f"{name} = {case[key]}" for key, (name, usual) in DEFAULTS.items() if case[key] != usual)
        times = [number(case["times"][name]["ms"]) if name in case["times"] else "" for name in VARIED]
        rows.append([change, case["layout"], *times, *comparison(case, "")])
    return table(["changed", "format", *VARIED, *COMPARISON], rows)


def upsamplers(ups: Report) -> str:
    rows = []
    for name, parameters in ups["parameters"].items():
        times = [ups["times"][layout][f"{name}{suffix}"] for layout in ups["times"] for suffix in ("", ", trained")]
        rows.append([f"`{name}`", f"{parameters:,}", *(number(time["ms"]) for time in times)])
    head = [f"{layout}{suffix}" for layout in ups["times"] for suffix in ("", ", trained")]
    B, C, h, w = ups["shape"]
    quick = "A quick run. " if ups["quick"] else ""
    where = f"{quick}Milliseconds; x {ups['shape']}, guide {[B, C, 2 * h, 2 * w]}, {ups['threads']} threads.\n\n"
    return where + table(["name", "parameters", *head], rows)


def segformer(found: Report) -> str:
    """Sorted by the price of training; the model as it was published is the row of bilinear."""
    own, rows = "bilinear", []
    times, memory = found["times"], found["memory"]
    for name in sorted(found["parameters"], key=lambda name: times[f"{name}, trained"]["ms"]):
        row = [f"`{name}`", f"{found['parameters'][name] - found['parameters'][own]:,}"]
        for suffix in ("", ", trained"):
            time, usual = times[name + suffix]["ms"], times[own + suffix]["ms"]
            row += [number(time), f"{time / usual - 1:+.1%}", f"{memory[name + suffix]:.0f}"]
        rows.append(row)
    size, threads = found["size"], found["threads"]
    where = (
        f"Milliseconds and megabytes; SegFormer-B1, 150 classes, one picture of {size}x{size}, {threads} threads.\n\n"
    )
    columns = ["prediction", "", "MB", "step of training", "", "MB"]
    return where + table(["upsampler", "parameters added", *columns], rows)


def machine(ops: Report) -> str:
    m = ops["machine"]
    quick = "A quick run, whose numbers say little: " if ops["quick"] else ""
    return (
        f"{quick}{m['processor']} with {m['cores']} cores ({m['instructions']}), {m['system']}, torch {m['torch']}, "
        f"sapa {m['sapa']} at {m['commit']}, Python {m['python']}; load {m['load']} before.\n"
    )


def digest() -> str:
    """Of the results that the picture is drawn from, which carries it."""
    return hashlib.sha256((report.RESULTS / "ops.json").read_bytes()).hexdigest()


def page() -> str:
    """docs/performance.md as it should be."""
    ops, ups = report.load("ops"), report.load("upsamplers")
    sections = {
        "machine": machine(ops),
        "targets": targets(ops),
        "cases": cases(ops),
        "variations": variations(ops),
        "upsamplers": upsamplers(ups),
        "segformer": segformer(report.load("segformer")),
    }
    return report.filled(PAGE, "bench", sections)


def main() -> None:
    from bench import plot  # matplotlib is not needed to compare the page

    PAGE.write_text(page())
    plot.draw(report.load("ops"), PICTURE, digest())
    print(PAGE, PICTURE, sep="\n")


if __name__ == "__main__":
    main()
