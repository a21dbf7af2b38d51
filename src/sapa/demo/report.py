"""The page of the demo: one HTML file with everything in it."""

import base64
import html
import io
from importlib.resources import files

from matplotlib.figure import Figure
from PIL import Image

from sapa.bench.timing import machine
from sapa.complexity import Cost
from sapa.demo.motorcycle import SCALE, Lifted
from sapa.tables import Table
from sapa.viewer.page import SOURCE

PLAIN = "bilinear"


def render(lifted: Lifted, figure: Figure, costs: dict[str, Cost], case: tuple[int, int], compared: Table) -> str:
    channels, size = case
    drawn = io.BytesIO()
    figure.savefig(drawn, dpi=120)
    parts = {
        "style": SOURCE.joinpath("page.css").read_text(encoding="utf-8"),
        "machine": html.escape(description()),
        "scale": str(SCALE),
        "lifted": address(lifted.picture()),
        "errors": error_rows(lifted.errors()),
        "figure": address(Image.open(drawn)),
        "case": f"{channels} channels, {size}x{size} to {2 * size}x{2 * size}",
        "costs": cost_rows(costs),
        "numbers": "".join(f'<th scope="col">{html.escape(name)}</th>' for name in compared.columns),
        "compared": "\n".join(row(str(name), *map(compared.text, cells)) for name, *cells in compared.rows),
    }
    page = files("sapa.demo").joinpath("report.html").read_text(encoding="utf-8")
    for name, text in parts.items():
        page = page.replace(f"{{{{ {name} }}}}", text)
    return page


def description() -> str:
    m = machine()
    kernels = (
        "C++ kernels" if m["backends"]["cpu"] == "ready" else f"reference backend (kernels {m['backends']['cpu']})"
    )
    return f"{m['processor']} with {m['cores']} cores, torch {m['torch']}, sapa {m['sapa']}, {kernels}"


def error_rows(errors: dict[str, dict[str, float]]) -> str:
    best = {metric: min(of[metric] for of in errors.values()) for metric in errors[PLAIN]}
    return "\n".join(
        row(name, *(mark(shown(metric, value), value == best[metric]) for metric, value in of.items()))
        for name, of in errors.items()
    )


def cost_rows(costs: dict[str, Cost]) -> str:
    slowest = max(of.milliseconds for of in costs.values())
    return "\n".join(
        row(
            name,
            f"{of.parameters:,}",
            f"{of.macs / 1e6:,.1f}",
            bar(of.milliseconds, slowest),
            f"{of.megabytes:.1f}",
        )
        for name, of in costs.items()
    )


def bar(value: float, largest: float) -> str:
    """By the square root, so that the short ones can be told apart."""
    return f'<span class="bar" style="width:{max(1, round(90 * (value / largest) ** 0.5))}px"></span>{value:.2f}'


def shown(metric: str, value: float) -> str:
    return f"{value:.1%}" if metric.startswith("off") else f"{value:.2f}"


def mark(text: str, is_best: bool) -> str:
    return f"<b>{text}</b>" if is_best else text


def row(name: str, *cells: str) -> str:
    numbers = "".join(f"<td>{cell}</td>" for cell in cells)
    return f'<tr><th scope="row"><code>{html.escape(name)}</code></th>{numbers}</tr>'


def address(image: Image.Image) -> str:
    data = io.BytesIO()
    image.convert("RGB").save(data, "WEBP", quality=90)
    return f"data:image/webp;base64,{base64.b64encode(data.getvalue()).decode('ascii')}"
