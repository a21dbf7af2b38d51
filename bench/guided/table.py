"""The tables of docs/guided.md, from bench/results/guided.json."""

from pathlib import Path
from statistics import mean
from typing import Any

from bench import report
from bench.render import machine, table
from sapa.bench.show import number

PAGE = report.ROOT / "docs" / "guided.md"
OURS, PLAIN = "guided_upsample", "bilinear"


def ranks(quality: dict[str, Any], scale: str) -> dict[str, float]:
    """The mean place of each method over all sets and metrics, 1 for the best; equals share their places."""
    places: dict[str, list[float]] = {}
    for scales in quality.values():
        methods = scales[scale]
        for metric in methods[OURS]:
            values = [of[metric] for of in methods.values()]
            for method, of in methods.items():
                better, equal = (
                    sum(test) for test in zip(*((v < of[metric], v == of[metric]) for v in values), strict=True)
                )
                places.setdefault(method, []).append(better + (equal + 1) / 2)
    return {method: mean(of) for method, of in places.items()}


def worse_than_bilinear(quality: dict[str, Any]) -> list[str]:
    """Sets, scales and metrics where it does not pay."""
    return [
        f"{name} at {scale}x, {metric}"
        for name, scales in quality.items()
        for scale, methods in scales.items()
        for metric, value in methods[OURS].items()
        if value > methods[PLAIN][metric]
    ]


def tables(result: dict[str, Any]) -> str:
    parts = []
    for name, scales in result["quality"].items():
        metrics = list(next(iter(scales.values()))[OURS])
        rows = []
        for scale, methods in scales.items():
            best = {metric: min(of[metric] for of in methods.values()) for metric in metrics}
            for method, of in methods.items():
                cells = [f"**{number(of[m])}**" if of[m] == best[m] else number(of[m]) for m in metrics]
                rows.append([f"{scale}x", method, *cells])
        parts.append(f"{name}:\n\n{table(['', 'method', *metrics], rows)}")
    found = ranks(result["quality"], "8")
    rows = [[method, f"{rank:.2f}"] for method, rank in sorted(found.items(), key=lambda item: item[1])]
    parts.append(f"Mean place at 8x, over all sets and metrics:\n\n{table(['method', 'place'], rows)}")
    worse = worse_than_bilinear(result["quality"])
    count = sum(len(of[OURS]) for scales in result["quality"].values() for of in scales.values())
    parts.append(f"Worse than bilinear in {len(worse)} of {count} cases{': ' + '; '.join(worse) if worse else ''}.\n")
    if result["left_out"]:
        parts.append(f"Not measured here: {', '.join(result['left_out'])}.\n")
    return "\n".join(parts)


def times(result: dict[str, Any]) -> str:
    names = {"depth": "depth, 480x640", "classes": "11 classes, 480x640", "large depth": "depth, 1080x1920"}
    rows = [
        [method, *(number(result["times"][what][method]["ms"]) for what in names)]
        for method in result["times"]["depth"]
    ]
    return f"Milliseconds at 8x on two threads; {machine(result)}\n{table(['method', *names.values()], rows)}"


def page() -> str:
    """docs/guided.md as it should be."""
    result, text = report.load("guided"), PAGE.read_text()
    for name, section in {"quality": tables(result), "times": times(result)}.items():
        begin, end = f"<!-- guided:{name} -->\n", f"<!-- /guided:{name} -->"
        before, rest = text.split(begin)
        text = before + begin + section + end + rest.split(end, 1)[1]
    return text


def write() -> Path:
    PAGE.write_text(page())
    return PAGE
