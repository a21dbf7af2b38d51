"""What programs load, number by number, as Triton's interpreter runs them: how often each, and how many share it.

`python -m bench.gpu.loads` writes bench/results/gpu_loads.json, from which docs/gpu.md tells. A few minutes.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any
from unittest.mock import patch

os.environ["TRITON_INTERPRET"] = "1"  # kernels are interpreted if it is there when they are imported

import numpy as np
import torch
from rich.progress import track
from torch import Tensor
from triton.backends.compiler import GPUTarget
from triton.runtime.interpreter import interpreter_builder as builder

from bench import report
from sapa.backends.triton import assembly, backward, fit, forward, launch, operators
from sapa.geometry import Size

LAYOUTS = ("channels_last", "planar")
KERNELS = {
    "attend": forward.attend_kernel,
    "points": backward.points_kernel,
    "scatter": assembly.scatter_kernel,
}


@dataclass(frozen=True)
class Call:
    """One of `attend`, or of a backward pass, told by a kernel it launches; B = 1, float32, softmax."""

    kernel: str
    layout: str = "channels_last"
    scale: int = 2
    C: int = 256
    D: int = 32
    low: Size = (4, 16)
    kernel_size: Size = (5, 5)

    def maps(self) -> dict[str, Tensor]:
        high = self.low[0] * self.scale, self.low[1] * self.scale
        sizes = {"q": (self.D, high), "k": (self.D, self.low), "v": (self.C, self.low), "g": (self.C, high)}
        sizes |= {"w": (self.kernel_size[0] * self.kernel_size[1], high)}
        order = torch.channels_last if self.layout == "channels_last" else torch.contiguous_format
        return {name: torch.zeros(1, C, *size).contiguous(memory_format=order) for name, (C, size) in sizes.items()}

    def run(self, maps: dict[str, Tensor]) -> None:
        q, k, v, g, w = maps.values()
        window = (None, self.kernel_size, "softmax", "zero")
        if self.kernel == "attend":
            operators.attend(q, k, v, *window)
        elif self.kernel == "scatter":
            operators.assemble_backward(g, v, w, self.kernel_size, 1)
        else:
            operators.attend_backward(g, q, k, v, *window)


def loads_of(call: Call) -> dict[str, dict[str, int]]:
    """For each map that is read: loads of all programs, different numbers of each program, different numbers of all."""
    maps, programs = call.maps(), list[list[np.ndarray]]()
    with _recorded(call.kernel, programs):
        call.run(maps)
    found = {}
    for name, x in maps.items():
        end = x.data_ptr() + x.nbytes
        of_map = [
            places[(places >= x.data_ptr()) & (places < end)]
            for places in (np.concatenate(one) for one in programs if one)
        ]
        counts = {
            "loads": sum(map(len, of_map)),
            "of_programs": sum(len(np.unique(places)) for places in of_map),
            "numbers": len(np.unique(np.concatenate(of_map))),
        }
        found |= {name: counts} if counts["loads"] else {}
    return found


@contextmanager
def _recorded(kernel: str, programs: list[list[np.ndarray]]) -> Iterator[None]:
    """Runs one kernel alone, with the tile of an A100 and no program to share cells with; keeps what each one loads."""
    load, begin = builder.create_masked_load, builder.set_grid_idx

    def choose(one: Any, plan: Any, arguments: Any) -> dict[str, Any]:
        return plan.candidates[0]

    def run(one: Any, plan: Any, arguments: Any, run: Any = launch.run) -> None:
        if one is KERNELS[kernel]:
            run(one, plan, arguments)

    def note(pointers: Any, mask: Any, *rest: Any) -> Any:
        programs[-1].append(pointers.data[mask.data.astype(bool)].ravel().astype(np.int64))
        return load(pointers, mask, *rest)

    def begin_program(*place: int) -> None:
        programs.append([])
        begin(*place)

    a100 = GPUTarget("cuda", 80, 32)
    with (
        patch.multiple(launch, choose=choose, run=run, current_target=lambda: a100, _plans={}),
        patch.multiple(builder, create_masked_load=note, set_grid_idx=begin_program),
        patch.object(fit, "ENOUGH", 1),
    ):
        yield


CALLS = [
    *(Call("attend", layout) for layout in LAYOUTS),
    Call("attend", D=512, low=(2, 8)),
    *(Call("attend", layout, scale, low=(5, 5)) for scale in (3, 8, 16, 32) for layout in LAYOUTS),
    Call("attend", kernel_size=(9, 9)),
    *(Call("points", layout) for layout in LAYOUTS),
    Call("points", D=512, low=(2, 8)),
    *(Call("points", layout, scale, low=(5, 5)) for scale in (3, 8, 16) for layout in LAYOUTS),
    *(Call("scatter", layout) for layout in LAYOUTS),
    Call("scatter", scale=8, low=(5, 5)),
]

if __name__ == "__main__":
    head = report.begin(0, quick=False)
    rows = [asdict(call) | {"maps": loads_of(call)} for call in track(CALLS, "running")]
    print(report.save("gpu_loads", head | {"calls": rows}))
