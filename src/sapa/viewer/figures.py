"""The report as one figure to print: maps, kernel maps and a few kernels, for every upsampler a column."""

from pathlib import Path
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from sapa.geometry import Size, centres
from sapa.viewer.points import Point
from sapa.viewer.report import Report, Seen

WIDTH = 1.7  # inches of a column
KERNEL = 0.75  # height of a kernel, in columns
# as on the page
SIGNED = LinearSegmentedColormap.from_list("signed", ["#c85400", "#ffffff", "#004a91"]).with_extremes(bad="#f1f2f3")
RAMP = LinearSegmentedColormap.from_list(
    "ramp", ["#16143a", "#283a6e", "#266784", "#37938a", "#76bd80", "#c7de7c", "#fdf6be"]
)
MARKS = ("a", "b", "c")


def write(report: Report, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    # text stays text in a PDF, and two runs write the same file
    metadata = {"CreationDate": None} if path.suffix.lower() == ".pdf" else {}
    draw(report).savefig(path, dpi=200, metadata=metadata)


def draw(report: Report) -> Figure:
    """Rows: the inputs; outputs; the top-left weight of each point; the entropy; the kernels of the first points."""
    points, columns = report.points[: len(MARKS)], max(3, len(report.seen))
    rows, (H, W) = 4 + len(points), report.size
    height = WIDTH * (4 * H / W + KERNEL * len(points)) + 0.25 * rows
    figure = Figure(figsize=(WIDTH * columns + 0.9, height), layout="constrained")
    ratios = [H / W] * 4 + [KERNEL] * len(points)
    axes = figure.subplots(rows, columns, squeeze=False, gridspec_kw={"height_ratios": ratios})
    for ax in axes.flat:
        ax.set_axis_off()
    inputs = {"photograph": report.photo, "encoder": report.guide, "decoder": report.x}
    if report.photo is report.guide:
        del inputs["photograph"]
    for ax, (name, pixels) in zip(axes[0], inputs.items(), strict=False):
        _picture(ax, report, pixels, name)
    for mark, (_, point) in zip(MARKS, points, strict=False):
        _mark(axes[0, 0], report, mark, point)
    corners = [seen.weights.values[0] for seen in report.seen]
    entropies = [entropy(seen.weights.values) for seen in report.seen]
    for i, seen in enumerate(report.seen):
        _picture(
            axes[1, i],
            report,
            seen.picture,
            seen.name if seen.error is None else f"{seen.name}, error {seen.error:.3f}",
        )
    _maps(figure, axes[2], corners, _high(report, corners), "top-left weight")
    _maps(figure, axes[3], entropies, max(1.0, *(float(e.max()) for e in entropies)), "entropy [bits]")
    for row, mark, (_, point) in zip(axes[4:], MARKS, points, strict=False):
        for ax, seen in zip(row, report.seen, strict=False):
            _kernel(ax, report, seen, point, mark)
    return figure


def entropy(w: Tensor) -> Tensor:
    """In bits, of the weights [P, H, W] taken as shares: [H, W]."""
    share = w.abs() / w.abs().sum(0).clamp_min(1e-12)
    return -torch.special.xlogy(share, share).sum(0).clamp_max(0) / torch.log(torch.tensor(2.0))


def _high(report: Report, corners: list[Tensor]) -> float:
    """Of the colours: what few points exceed, without kernels of one point, which are 1 everywhere."""
    some = [w for w, seen in zip(corners, report.seen, strict=True) if len(seen.weights.values) > 1]
    return max([1e-3, *(float(torch.quantile(w.flatten(), 0.99)) for w in some)])


def _picture(ax: Axes, report: Report, pixels: Tensor, title: str) -> None:
    """All in the places of the high-res map, whatever their own size."""
    H, W = report.size
    ax.imshow(pixels.numpy(), interpolation="nearest", extent=(0, W, H, 0))
    ax.set_title(title, fontsize=8)


def _maps(figure: Figure, row: Any, fields: list[Tensor], high: float, label: str) -> None:
    for ax, field in zip(row, fields, strict=False):
        ax.imshow(field.numpy(), cmap=RAMP, vmin=0, vmax=high, interpolation="nearest")
    bar = figure.colorbar(row[0].images[0], ax=list(row), fraction=0.02, pad=0.01)
    bar.set_label(label, fontsize=8)
    bar.ax.tick_params(labelsize=7)


def _mark(ax: Axes, report: Report, mark: str, point: Point) -> None:
    """The window of the point."""
    window = report.window
    row, column = _centre(report, point)
    steps = [N / n for N, n in zip(report.size, report.low, strict=True)]
    left, top = (column - window[1] // 2) * steps[1], (row - window[0] // 2) * steps[0]
    for colour, width in (("black", 2.2), ("white", 1.0)):
        frame = Rectangle((left, top), window[1] * steps[1], window[0] * steps[0], fill=False)
        frame.set(edgecolor=colour, linewidth=width)
        ax.add_patch(frame)
    # at another corner of each window, since two of them lie side by side
    i = MARKS.index(mark)
    place = (left + (i % 2) * window[1] * steps[1], top + (i % 2) * window[0] * steps[0])
    label = ax.text(*place, mark, fontsize=7, color="white", weight="bold", va="top" if i % 2 else "bottom")
    label.set(ha="left" if i % 2 else "right", bbox={"facecolor": "black", "alpha": 0.7, "pad": 1, "linewidth": 0})


def _kernel(ax: Axes, report: Report, seen: Seen, point: Point, mark: str) -> None:
    own, (Kh, Kw) = seen.weights.values[:, point[0], point[1]], seen.weights.kernel_size
    top, left = (report.window[0] - Kh) // 2, (report.window[1] - Kw) // 2
    w = torch.full(report.window, torch.nan)
    w[top : top + Kh, left : left + Kw] = own.view(Kh, Kw)
    # the square root keeps 1/25 apart from 0
    ax.imshow((w.sign() * w.abs().sqrt()).numpy(), cmap=SIGNED, vmin=-1, vmax=1)
    ax.add_patch(Rectangle((0, 0), 1, 1, transform=ax.transAxes, fill=False, edgecolor="#c8cacd", linewidth=0.6))
    size = 5 if max(w.shape) <= 5 else 3.5
    for i, j in (w.abs() >= 0.005).nonzero().tolist():
        value = float(w[i, j])
        text = f"{value:.2f}".replace("0.", ".")
        ax.text(j, i, text, fontsize=size, ha="center", va="center", color="white" if abs(value) > 0.25 else "black")
    n = float(2 ** entropy(own[:, None, None]).item())
    ax.set_title(f"{mark}: {seen.name}, {n:.1f} points", fontsize=7)


def _centre(report: Report, point: Point) -> Size:
    cpu = torch.device("cpu")
    row, column = (int(centres(N, n, cpu)[p]) for p, N, n in zip(point, report.size, report.low, strict=True))
    return row, column
