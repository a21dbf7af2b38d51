"""The picture of docs/performance.md: the times at the main shape, and attend beside bilinear at every shape."""

from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, NullFormatter

from bench.render import PEERS, ratio
from sapa.bench.show import number

# dark enough on white, and apart for every kind of colour blindness
COLOURS = {"NCHW": "#0072b2", "channels_last": "#d55e00"}
SHIFT = {"NCHW": 0.2, "channels_last": -0.2}
LABEL: dict[str, Any] = {
    "textcoords": "offset points",
    "va": "center",
    "fontsize": 8,
    "bbox": {"facecolor": "white", "edgecolor": "none", "pad": 0.8},
}
STYLE = {
    "font.size": 10,
    "svg.hashsalt": "sapa",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "figure.facecolor": "white",
}


def draw(ops: dict[str, Any], path: Path, digest: str) -> None:
    with rc_context(STYLE):  # type: ignore[arg-type]
        figure = Figure(figsize=(13, 4.8), layout="constrained")
        left, middle, right = figure.subplots(1, 3, width_ratios=(1, 1, 1.1))
        main = [case for case in ops["base"] if case["shape"] == [1, 256, 64, 64]]
        points(left, main, "", "[1, 256, 64, 64]: forward, ms")
        points(middle, main, ", trained", "[1, 256, 64, 64]: forward and backward, ms")
        ratios(right, ops["base"])
        handles = [Patch(color=colour, label=layout) for layout, colour in COLOURS.items()]
        figure.legend(handles=handles, loc="outside lower center", ncols=2, frameon=False)
        path.parent.mkdir(exist_ok=True)
        metadata = {"Date": None, "Identifier": digest} if path.suffix == ".svg" else None
        figure.savefig(path, metadata=metadata, dpi=110)


def points(axes: Axes, cases: list[dict[str, Any]], suffix: str, title: str) -> None:
    """Medians on a logarithmic scale, with quartiles as whiskers."""
    names = [name for name in reversed(PEERS) if any(name + suffix in case["times"] for case in cases)]
    for row, name in enumerate(names):
        for case in cases:
            time = case["times"].get(name + suffix)
            if time is None:
                continue
            height = row + SHIFT[case["layout"]]
            whiskers = [[time["ms"] - time["low"]], [time["high"] - time["ms"]]]
            axes.errorbar(time["ms"], height, xerr=whiskers, fmt="o", markersize=6, color=COLOURS[case["layout"]])
            axes.annotate(number(time["ms"]), (time["high"], height), (7, 0), **LABEL)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_yticks(range(len(names)), names)
    axes.grid(axis="x", color="#dddddd", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.set_title(title, loc="left", fontsize=10)
    axes.margins(x=0.15)


def ratios(axes: Axes, cases: list[dict[str, Any]]) -> None:
    """The time of attend as a multiple of bilinear's, for each shape; the line is the same time."""
    shapes = list(dict.fromkeys(str(case["shape"]) for case in cases))[::-1]
    axes.axvline(1, color="#444444", linewidth=1, linestyle="--")
    for case in cases:
        row = shapes.index(str(case["shape"])) + SHIFT[case["layout"]]
        value = ratio(case, "attend", "bilinear")
        axes.barh(row, value, 0.38, color=COLOURS[case["layout"]])
        axes.annotate(number(value), (value, row), (4, 0), **LABEL)
    axes.set_yticks(range(len(shapes)), shapes)
    axes.set_title("attend / bilinear of the same format, forward", loc="left", fontsize=10)
    axes.margins(x=0.12)
