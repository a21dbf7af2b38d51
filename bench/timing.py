"""Times of several functions side by side: interleaved, so that a slow moment of the machine meets them all."""

import os
import platform
import statistics
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import sapa


def interleaved(functions: dict[str, Callable[[], object]], seconds: float = 1.0) -> dict[str, dict[str, float]]:
    """Median and quartiles in milliseconds of each function, called in turns for about this long each."""
    for function in functions.values():
        function()
    times: dict[str, list[float]] = {name: [] for name in functions}
    end = time.perf_counter() + seconds * len(functions)
    while time.perf_counter() < end or min(map(len, times.values())) < 5:
        for name, function in functions.items():
            start = time.perf_counter()
            function()
            times[name].append(1e3 * (time.perf_counter() - start))
    result = {}
    for name, values in times.items():
        low, median, high = statistics.quantiles(values, n=4)
        result[name] = {"ms": round(median, 4), "low": round(low, 4), "high": round(high, 4), "runs": len(values)}
    return result


def machine() -> dict[str, Any]:
    """What the numbers depend on."""
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 2),
        "torch": torch.__version__,
        "sapa": sapa.__version__,
        "commit": commit.stdout.strip(),
        "backends": sapa.status("cpu"),
        "python": platform.python_version(),
    }


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()
