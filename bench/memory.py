"""Memory that a forward takes beside its output, seen from outside: the peak of a fresh process, in bytes.

`python -m bench.memory attend '{"shape": [1, 256, 64, 64], ...}'` prints it for one function; Linux alone can tell.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path

import torch
from torch import Tensor

from sapa.bench import Case
from sapa.bench.peers import SCALE, peers
from sapa.bench.timing import threads

NAMES = ("attend", "bilinear", "unfold")
RESET = Path("/proc/self/clear_refs")
# blocks freed before must not be there to be used again, or they would hide what a call takes
ALLOCATOR = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}


def extra(case: Case, names: Iterable[str] = NAMES) -> dict[str, float]:
    """For each function its extra memory as a share of the output; empty where it cannot be measured."""
    if not RESET.exists():
        return {}
    B, C, h, w = case.shape
    output = B * C * (SCALE * h) * (SCALE * w) * getattr(torch, case.dtype).itemsize
    shares = {}
    for name in names:
        command = [sys.executable, "-m", "bench.memory", name, json.dumps(asdict(case))]
        found = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=True,
            env=os.environ | ALLOCATOR,
            cwd=Path(__file__).parents[1],
        )
        shares[name] = round(int(found.stdout) / output, 4)
    return shares


def peak(name: str, case: Case) -> int:
    """Bytes beyond inputs and output of the first call at this size."""
    dtype = getattr(torch, case.dtype)
    with threads(case.threads):
        # libraries and threads are not the call's
        peers((1, 8, 4, 4), case.layout, case.kernel_size, case.embed_dim, dtype)[name].forward()()
        function = peers(case.shape, case.layout, case.kernel_size, case.embed_dim, dtype)[name].forward()
        return peak_since(function)


def peak_since(function: Callable[[], object]) -> int:
    """Bytes that a call takes beyond what is there before it and what it returns."""
    RESET.write_text("5")
    before = _status("VmRSS")
    y = function()
    after = _status("VmHWM")
    return after - before - (y.nbytes if isinstance(y, Tensor) else 0)


def _status(key: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(f"{key}:"))


if __name__ == "__main__":
    settings = json.loads(sys.argv[2])
    print(peak(sys.argv[1], Case(**settings | {"shape": tuple(settings["shape"])})))
