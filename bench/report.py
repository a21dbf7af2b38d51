"""Where results are kept, and what every one of them says about the machine."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from sapa.bench import machine

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).with_name("results")


def begin(seconds: float, quick: bool) -> dict[str, Any]:
    """The head of a report, taken before the measurement so that the load is that of others."""
    command = ["git", "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    return {"machine": machine() | {"commit": commit.stdout.strip()}, "seconds": seconds, "quick": quick}


def save(name: str, report: dict[str, Any], folder: Path = RESULTS) -> Path:
    report["machine"]["load_after"] = round(os.getloadavg()[0], 2)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.json"
    path.write_text(json.dumps(report, indent=1) + "\n")
    return path


def filled(page: Path, prefix: str, sections: dict[str, str]) -> str:
    """A page in which what stands between <!-- prefix:name --> and <!-- /prefix:name --> is that section."""
    text = page.read_text()
    for name, section in sections.items():
        begin, end = f"<!-- {prefix}:{name} -->\n", f"<!-- /{prefix}:{name} -->"
        before, rest = text.split(begin)
        text = before + begin + section + end + rest.split(end, 1)[1]
    return text


def load(name: str) -> dict[str, Any]:
    return json.loads((RESULTS / f"{name}.json").read_text())
