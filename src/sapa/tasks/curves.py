"""Line and dot plots as SVG for a page: text and axes take the colours of the page, light or dark."""

import html
from collections.abc import Mapping, Sequence
from math import ceil, floor, log10

WIDTH, HEIGHT = 640, 320
LEFT, RIGHT, TOP, BOTTOM = 52, 12, 12, 40
# of Okabe and Ito, which the colour-blind can tell apart, and some more
COLOURS = (
    *("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7a4fbf", "#8c6d31"),
    *("#b22222", "#4d7c0f", "#0f766e", "#be185d", "#64748b", "#a16207", "#1e40af", "#701a75"),
)

Points = Sequence[tuple[float, float]]


def colour(i: int) -> str:
    return COLOURS[i % len(COLOURS)]


def lines(series: Mapping[str, Sequence[Points]], across: str, up: str) -> str:
    """A plot with one colour for each name, and a thin line for each of its runs."""
    points = [point for runs in series.values() for run in runs for point in run if point[1] == point[1]]
    if not points:
        return ""
    xs, ys = ticks(0, max(x for x, _ in points)), ticks(min(y for _, y in points), max(y for _, y in points))
    parts = [_axes(xs, ys, across, up)]
    for i, (name, runs) in enumerate(series.items()):
        drawn = "".join(
            f'<polyline points="{" ".join(f"{_x(x, xs):.1f},{_y(y, ys):.1f}" for x, y in run if y == y)}"/>'
            for run in runs
        )
        parts.append(f'<g class="line" stroke="{colour(i)}"><title>{html.escape(name)}</title>{drawn}</g>')
    return _svg(parts, HEIGHT, f"{up} over {across}")


def dots(values: dict[str, list[float]], label: str) -> str:
    """A row for each name: a dot for each run, and a bar at their mean."""
    numbers = [value for of in values.values() for value in of if value == value]
    if not numbers:
        return ""
    xs, row = ticks(min(numbers), max(numbers)), 24
    left = 16 + 7.4 * max(map(len, values))
    height = TOP + row * len(values) + BOTTOM
    place = lambda value: left + (value - xs[0]) / (xs[-1] - xs[0]) * (WIDTH - left - 2 * RIGHT)  # noqa: E731
    bottom = height - BOTTOM
    parts = [
        f'<path class="grid" d="M{place(x):.1f} {TOP}V{bottom}"/>'
        f'<text x="{place(x):.1f}" y="{bottom + 16}" text-anchor="middle">{x:g}</text>'
        for x in xs
    ]
    parts.append(
        f'<text x="{(left + WIDTH) / 2:.0f}" y="{height - 6}" text-anchor="middle">{html.escape(label)}</text>'
    )
    for i, (name, of) in enumerate(values.items()):
        y = TOP + row * (i + 0.5)
        known = [value for value in of if value == value]
        parts.append(f'<text x="{left - 10:.1f}" y="{y + 4}" text-anchor="end" class="name">{html.escape(name)}</text>')
        parts += [
            f'<circle cx="{place(value):.1f}" cy="{y}" r="4" fill="{colour(i)}" opacity="0.6"/>' for value in known
        ]
        if known:
            middle = place(sum(known) / len(known))
            parts.append(f'<path d="M{middle:.1f} {y - 8}V{y + 8}" stroke="{colour(i)}" stroke-width="3"/>')
    return _svg(parts, height, label)


def ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Round numbers from just below to just above."""
    span = high - low or abs(high) or 1.0
    power = 10 ** floor(log10(span / count))
    step = next(power * factor for factor in (1, 2, 5, 10) if span / (power * factor) <= count)
    first, last = floor(low / step + 1e-9), ceil(high / step - 1e-9)
    return [round(i * step, 10) for i in range(first, max(last, first + 1) + 1)]


def _x(value: float, xs: Sequence[float]) -> float:
    return LEFT + (value - xs[0]) / (xs[-1] - xs[0]) * (WIDTH - LEFT - RIGHT)


def _y(value: float, ys: Sequence[float]) -> float:
    return HEIGHT - BOTTOM - (value - ys[0]) / (ys[-1] - ys[0]) * (HEIGHT - TOP - BOTTOM)


def _axes(xs: Sequence[float], ys: Sequence[float], across: str, up: str) -> str:
    bottom = HEIGHT - BOTTOM
    parts = [
        f'<path class="grid" d="M{LEFT} {_y(y, ys):.1f}H{WIDTH - RIGHT}"/>'
        f'<text x="{LEFT - 8}" y="{_y(y, ys) + 4:.1f}" text-anchor="end">{y:g}</text>'
        for y in ys
    ]
    parts += [f'<text x="{_x(x, xs):.1f}" y="{bottom + 18}" text-anchor="middle">{x:g}</text>' for x in xs]
    parts.append(
        f'<text x="{(LEFT + WIDTH) / 2:.0f}" y="{HEIGHT - 4}" text-anchor="middle">{html.escape(across)}</text>'
    )
    middle = (TOP + bottom) / 2
    turned = f'transform="translate(12 {middle:.0f}) rotate(-90)"'
    parts.append(f'<text {turned} text-anchor="middle">{html.escape(up)}</text>')
    return "".join(parts)


def _svg(parts: list[str], height: float, title: str) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-label="{html.escape(title)}" class="plot">'
        f"{''.join(parts)}</svg>"
    )
