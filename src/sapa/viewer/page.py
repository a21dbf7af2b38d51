"""The report as one HTML file: styles, program, pictures and weights are all inside."""

import base64
import html
import io
import json
import zlib
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from torch import Tensor

from sapa.viewer.report import Report, Seen

SOURCE = files("sapa.viewer") / "page"
SCRIPTS = (
    "data",
    "colour",
    "state",
    "map",
    "pointer",
    "kernel",
    "loupe",
    "explorer",
    "pins",
    "kernel_maps",
    "figures",
    "keys",
    "main",
)
LEVELS = 65535


def write(report: Report, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(render(report), encoding="utf-8")


def render(report: Report) -> str:
    """The page. What comes from outside is escaped: the title as HTML, the data so that no tag can end it."""
    page = SOURCE.joinpath("page.html").read_text(encoding="utf-8")
    program = "\n".join(SOURCE.joinpath(f"{name}.js").read_text(encoding="utf-8") for name in SCRIPTS)
    parts = {
        "title": html.escape(report.title),
        "style": SOURCE.joinpath("page.css").read_text(encoding="utf-8"),
        "data": json.dumps(describe(report), ensure_ascii=False).replace("<", "\\u003c"),
        "program": f'(() => {{\n"use strict";\n{program}\n}})();',
    }
    head, *rest = page.split("{{")
    for piece in rest:
        name, text = piece.split("}}", 1)
        head += parts[name.strip()] + text
    return head


def describe(report: Report) -> dict[str, Any]:
    """All that the program reads, ready for JSON."""
    return {
        "title": report.title,
        "size": report.size,
        "low": report.low,
        "window": report.window,
        "channels": report.channels,
        "colours": report.colours,
        "isPhotograph": report.is_photograph,
        "photo": picture(report.photo, "JPEG" if report.is_photograph else "PNG"),
        "encoder": picture(report.guide),
        "decoder": picture(report.x),
        "points": [{"name": name, "row": row, "column": column} for name, (row, column) in report.points],
        "upsamplers": [_entry(seen) for seen in report.seen],
    }


def _entry(seen: Seen) -> dict[str, Any]:
    return {
        "name": seen.name,
        "kernelSize": seen.weights.kernel_size,
        "kind": seen.weights.kind,
        "isTrained": seen.is_trained,
        "hasGate": seen.has_gate,
        "error": seen.error,
        "picture": picture(seen.picture),
        "weights": pack(seen.weights.values),
    }


def pack(w: Tensor) -> dict[str, Any]:
    """Weights [P, H, W] in 16 bits each: all high bytes and then all low ones, which compresses better, as base64."""
    values = w.double().numpy()
    low, high = min(0.0, float(values.min())), max(1e-9, float(values.max()))
    levels = np.round((values - low) / (high - low) * LEVELS).astype(np.uint16)
    halves = np.stack([levels >> 8, levels & 255]).astype(np.uint8)
    return {"low": low, "high": high, "bytes": _text(zlib.compress(halves.tobytes(), 9))}


def picture(pixels: Tensor, kind: str = "PNG") -> str:
    """Colours [H, W, 3] from 0 to 1, as the address of an image."""
    data = io.BytesIO()
    options: dict[str, Any] = {"optimize": True} if kind == "PNG" else {"quality": 88}
    Image.fromarray((pixels.numpy() * 255).round().astype(np.uint8)).save(data, kind, **options)
    return f"data:image/{kind.lower()};base64,{_text(data.getvalue())}"


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
