"""The page of a comparison: one HTML file with the table, curves and pictures in it."""

import base64
import html
import json
from importlib.resources import files
from pathlib import Path
from typing import Any

from sapa.bench.timing import machine
from sapa.files import atomic
from sapa.tables import Table
from sapa.tasks.compare import Comparison, paired, table
from sapa.tasks.curves import colour, dots, lines
from sapa.tasks.pictures import read_pictures

PAGE = "report.html"
COMMON = ("image", "truth", "trimap")  # the same whatever the upsampler


def write(found: Comparison) -> Path:
    path = found.folder / PAGE
    with atomic.replacing(path) as part:
        part.write_text(render(found), encoding="utf-8")
    return path


def render(found: Comparison) -> str:
    shown, main = table(found), found.task.shown[0]
    parts = {
        "style": (files("sapa.viewer") / "page" / "page.css").read_text(encoding="utf-8"),
        "title": html.escape(f"Which upsampler for {found.task.name}?"),
        "machine": html.escape(description(found)),
        "verdict": html.escape(verdict(found)),
        "table": table_html(shown, found),
        "legend": legend(found),
        "dots": "".join(
            f'<figure class="chart">{dots(_values(found, name), name)}</figure>' for name in found.task.shown[:2]
        ),
        "metric": lines(_history(found, main), "thousand steps" if is_streamed(found) else "epochs", main),
        "loss": lines(_losses(found), "steps", "loss in training"),
        "error": html.escape(found.task.error),
        "pictures": pictures(found),
        "preset": html.escape(json.dumps(found.first(found.labels[0])["about"], indent=1, ensure_ascii=False)),
    }
    head, *rest = files("sapa.tasks").joinpath("comparison.html").read_text(encoding="utf-8").split("{{")
    for piece in rest:
        name, text = piece.split("}}", 1)
        head += parts[name.strip()] + text
    return head


def is_streamed(found: Comparison) -> bool:
    return found.first(found.labels[0])["data"]["train"] is None


def description(found: Comparison) -> str:
    result, m = found.first(found.labels[0]), machine()
    about, preset = result["about"], result["about"]["preset"]
    data = "built-in scenes" if about["data"] in (None, "builtin") else Path(about["data"]).name
    H, W = preset["size"]
    counts = [result["data"][split] or "a stream of" for split in ("train", "val")]
    return (
        f"{data}: {counts[0]} pictures to train on, {counts[1]} to measure; {preset['net']} "
        f"net, {H}x{W}, {result['steps']} steps of {preset['batch']}. {m['processor']}, torch {m['torch']}, "
        f"sapa {m['sapa']}."
    )


def verdict(found: Comparison) -> str:
    """Which of them differ from the base by more than seeds do. Words, since a table does not say it."""
    main, sign = found.task.shown[0], 1 if found.task.is_higher_better else -1
    if len(found.seeds) < 2:
        return f"One seed: small differences of {main} mean nothing. Run it with --seeds 3 before you decide."
    better, worse, unclear = [], [], []
    for label in found.labels:
        if label == found.base or label not in found.results:
            continue
        difference, half = paired(found, label, main)
        if half is None or abs(difference) <= half:
            unclear.append(label)
        else:
            (better if sign * difference > 0 else worse).append(label)
    texts = [
        f"{what} than {found.base}: {', '.join(labels)}."
        for what, labels in (("Better", better), ("Worse", worse))
        if labels
    ]
    if unclear:
        texts.append(f"Not to be told from {found.base} with {len(found.seeds)} seeds: {', '.join(unclear)}.")
    return " ".join(texts)


def table_html(shown: Table, found: Comparison) -> str:
    best = _best(shown, found)
    rows = []
    for i, row in enumerate(shown.rows):
        cells = "".join(
            f"<td>{_cell(shown, column, cell, is_best=best.get(column) == i)}</td>"
            for column, cell in zip(shown.columns[1:], row[1:], strict=True)
        )
        dot = f'<span class="key" style="background:{colour(found.labels.index(str(row[0])))}"></span>'
        rows.append(f'<tr><th scope="row">{dot}<code>{html.escape(str(row[0]))}</code></th>{cells}</tr>')
    head = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in shown.columns)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def _cell(shown: Table, column: str, cell: object, *, is_best: bool) -> str:
    if cell is None:
        return ""
    is_signed = " - " in column and isinstance(cell, float)
    sign = "+" if isinstance(cell, float) and cell > 0 else ""
    text = f"{sign}{shown.text(cell)}" if is_signed else shown.text(cell)  # type: ignore[arg-type]
    return f"<b>{text}</b>" if is_best else html.escape(text)


def _best(shown: Table, found: Comparison) -> dict[str, int]:
    """The row that is best in each column of the metric."""
    best = {}
    for name in found.task.shown:
        place = shown.columns.index(name)
        values = [row[place] for row in shown.rows]
        numbers = [value for value in values if isinstance(value, float) and value == value]
        if numbers:
            up = found.task.is_higher_better != (name.startswith("δ"))
            best[name] = values.index(max(numbers) if up else min(numbers))
    return best


def legend(found: Comparison) -> str:
    return "".join(
        f'<li><span class="key" style="background:{colour(i)}"></span><code>{html.escape(label)}</code></li>'
        for i, label in enumerate(found.labels)
    )


def _values(found: Comparison, name: str) -> dict[str, list[float]]:
    return {label: list(found.values(label, name).values()) for label in found.labels}


def _history(found: Comparison, name: str) -> dict[str, list[list[tuple[float, float]]]]:
    return {
        label: [[(_place(row), _number(row["metrics"][name])) for row in run["history"]] for run in of.values()]
        for label, of in found.results.items()
    }


def _place(row: dict[str, Any]) -> float:
    """In epochs, or in thousands of steps where a stream has none."""
    return row["step"] / 1000 if row["epoch"] is None else row["epoch"]


def _number(value: float | None) -> float:
    return float("nan") if value is None else value


def _losses(found: Comparison) -> dict[str, list[list[tuple[float, float]]]]:
    """Of the first seed alone: with all of them nothing could be seen."""
    return {label: [[(x, y) for x, y in next(iter(of.values()))["losses"]]] for label, of in found.results.items()}


def pictures(found: Comparison) -> str:
    """For each sample the picture and the truth, and below them what each upsampler made of it."""
    seed = found.seeds[0]
    rows = {label: read_pictures(found.folder_of(label, seed)) for label in found.results}
    blocks = []
    for i in range(min(len(row) for row in rows.values())):
        common = next(iter(rows.values()))[i]
        figures = [_figure(path, name) for name, path in common.items() if name in COMMON]
        block = [f'<div class="given">{"".join(figures)}</div>', '<div class="found">']
        for label, row in rows.items():
            own = [_figure(path, "") for name, path in row[i].items() if name not in COMMON]
            title = f"<h3><code>{html.escape(label)}</code></h3>"
            block.append(f'<div class="pair">{title}<div class="twins">{"".join(own)}</div></div>')
        blocks.append(f"<article>{''.join(block)}</div></article>")
    return "\n".join(blocks)


def _figure(path: Path, caption: str) -> str:
    data = base64.b64encode(path.read_bytes()).decode("ascii")
    text = f"<figcaption>{html.escape(caption)}</figcaption>" if caption else ""
    return (
        f'<figure><img src="data:image/webp;base64,{data}" alt="{html.escape(caption)}" loading="lazy">{text}</figure>'
    )
