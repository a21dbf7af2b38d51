"""What programs load, number by number, as Triton's interpreter runs them: how often each, and what a cache fetches.

A number that several taps or turns of a program ask for is in the first-level cache of its multiprocessor, if that is
large enough. So the loads of each program go through caches that keep what was used last.
`python -m bench.gpu.loads` writes bench/results/gpu_loads.json, from which docs/gpu.md tells. Ten minutes.
"""

import os
from collections import Counter, OrderedDict
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
from triton._C.libtriton.ir import CACHE_MODIFIER
from triton.backends.compiler import GPUTarget
from triton.runtime.interpreter import interpreter_builder as builder

from bench import report
from sapa.backends.triton import assembly, backward, fit, forward, launch, operators
from sapa.geometry import Size

Loads = tuple[np.ndarray, np.ndarray]  # addresses, and whether the first-level cache keeps them
# bytes for each thread where half of the threads are there; of an A100's 192, shared memory takes 64 at most
CACHES = {"MI300": 32, "A100": 128}
SECTOR = 32  # bytes that a cache fetches at once
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
    """For each map that is read, summed over programs: loads, numbers they are of, sectors, fetches by each cache."""
    maps, programs = call.maps(), list[list[Loads]]()
    with _recorded(call.kernel, programs) as metas:
        call.run(maps)
    (meta,), found = metas, {name: Counter[str]() for name in maps}
    for loads in programs:
        places, is_kept = (np.concatenate(one) for one in zip(*loads, strict=True))
        are_of = {name: (places >= x.data_ptr()) & (places < x.data_ptr() + x.nbytes) for name, x in maps.items()}
        for name, is_of in are_of.items():
            numbers, sectors = np.unique(places[is_of]), np.unique(places[is_of] // SECTOR)
            found[name].update(loads=int(is_of.sum()), numbers=len(numbers), sectors=len(sectors))
        for cache, size in CACHES.items():
            missed = misses(places // SECTOR, is_kept, size * 32 * meta["num_warps"] // SECTOR)
            for name, is_of in are_of.items():
                found[name][cache] += int((missed & is_of).sum())
    return {name: dict(count) for name, count in found.items() if count["loads"]}


def misses(sectors: np.ndarray, is_kept: np.ndarray, capacity: int) -> np.ndarray:
    """Which of these are not in a cache for so many of them, which keeps those that were used last."""
    kept, missed, last = OrderedDict[int, None](), np.zeros(len(sectors), bool), -1
    for n, (sector, to_keep) in enumerate(zip(sectors.tolist(), is_kept.tolist(), strict=True)):
        # neighbours in one load are fetched together
        missed[n] = sector not in kept and sector != last
        last = sector
        if to_keep:
            kept[sector] = None
            kept.move_to_end(sector)
        if len(kept) > capacity:
            kept.popitem(last=False)
    return missed


@contextmanager
def _recorded(kernel: str, programs: list[list[Loads]]) -> Iterator[list[dict[str, Any]]]:
    """Runs one kernel alone, with the tile of an A100 and no program to share cells with; keeps what each one loads."""
    metas, load, begin = list[dict[str, Any]](), builder.create_masked_load, builder.set_grid_idx

    def choose(one: Any, plan: Any, arguments: Any) -> dict[str, Any]:
        if one is KERNELS[kernel]:
            metas.append(plan.candidates[0])
        return plan.candidates[0]

    def run(one: Any, plan: Any, arguments: Any, run: Any = launch.run) -> None:
        if one is KERNELS[kernel]:
            run(one, plan, arguments)

    def note(pointers: Any, mask: Any, other: Any, cache: Any, *rest: Any) -> Any:
        places = np.sort(pointers.data[mask.data.astype(bool)].ravel().astype(np.int64))
        programs[-1].append((places, np.full(len(places), cache == CACHE_MODIFIER.NONE)))
        return load(pointers, mask, other, cache, *rest)

    def begin_program(*place: int) -> None:
        programs.append([])
        begin(*place)

    a100 = GPUTarget("cuda", 80, 32)
    with (
        patch.multiple(launch, choose=choose, run=run, current_target=lambda: a100, _plans={}),
        patch.multiple(builder, create_masked_load=note, set_grid_idx=begin_program),
        patch.object(fit, "ENOUGH", 1),
    ):
        yield metas


CALLS = [
    *(Call("attend", layout) for layout in LAYOUTS),
    Call("attend", D=512, low=(2, 8)),
    *(Call("attend", layout, scale, low=(5, 5)) for scale in (8, 16, 32) for layout in LAYOUTS),
    *(Call("attend", scale=32, D=D, low=(5, 5)) for D in (128, 512)),
    Call("attend", scale=32, C=1024, low=(5, 5)),
    *(Call("points", layout, low=(4, 16)) for layout in LAYOUTS),
    *(Call("points", scale=scale, low=(5, 5)) for scale in (8, 16)),
    *(Call("scatter", layout, low=(4, 16)) for layout in LAYOUTS),
]

if __name__ == "__main__":
    head = report.begin(0, quick=False)
    rows = [asdict(call) | {"maps": loads_of(call)} for call in track(CALLS, "running")]
    print(report.save("gpu_loads", head | {"caches": CACHES, "calls": rows}))
