"""Write the tables of docs/performance.md from bench/results: `python -m bench.render`."""

import json
from pathlib import Path

RESULTS = Path(__file__).with_name("results") / "ops.json"
PAGE = Path(__file__).parents[1] / "docs" / "performance.md"
BEGIN, END = "<!-- bench:ops -->\n", "<!-- /bench:ops -->"
COLUMNS = ("attend", "bilinear", "bicubic", "conv_transpose", "unfold", "copy of the output")
TRAINED = ("attend, trained", "bilinear, trained", "unfold, trained")


def table(report: dict, columns: tuple[str, ...]) -> str:
    head = [
        "x",
        "format",
        *(name.removesuffix(", trained") for name in columns),
        "attend / bilinear",
        "unfold / attend",
    ]
    lines = [head, ["---"] * len(head)]
    suffix = ", trained" if columns == TRAINED else ""
    for case in report["cases"]:
        ms = {name: value["ms"] for name, value in case["times"].items()}
        ours = ms[f"attend{suffix}"]
        ratios = [f"{ours / ms[f'bilinear{suffix}']:.2f}", f"{ms[f'unfold{suffix}'] / ours:.0f}"]
        lines.append([str(case["shape"]), case["layout"], *(f"{ms[name]:.2f}" for name in columns), *ratios])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def render(report: dict) -> str:
    machine = report["machine"]
    where = f"{machine['processor']}, {report['threads']} threads, torch {machine['torch']}"
    return (
        f"Milliseconds, medians of one run on {where}; K = {report['kernel_size']}, D = {report['embed_dim']}, "
        f"twice the size, float32.\n\nForward:\n\n{table(report, COLUMNS)}\n\n"
        f"Forward and backward:\n\n{table(report, TRAINED)}\n"
    )


def page() -> str:
    """docs/performance.md as it should be."""
    before, rest = PAGE.read_text().split(BEGIN)
    return before + BEGIN + render(json.loads(RESULTS.read_text())) + END + rest.split(END)[1]


if __name__ == "__main__":
    PAGE.write_text(page())
