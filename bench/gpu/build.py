"""Compile a kernel for a GPU that is not there, as a launch on that GPU would.

The operator is called on maps without memory, and what it is about to launch goes to Triton's own compiler: types,
constants and divisibility are those that Triton finds in the sizes, strides and addresses of the call.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, cast
from unittest.mock import patch

import torch
from torch import Tensor
from triton.backends.compiler import GPUTarget
from triton.runtime.driver import driver

from bench.gpu.inspect import spilled_bytes
from sapa.backends.triton import assembly, backward, choice, forward, launch, operators
from sapa.backends.triton.fit import Meta
from sapa.backends.triton.plan import Plan
from sapa.geometry import Size

TARGETS = {
    "sm_80": GPUTarget("cuda", 80, 32),
    "sm_90": GPUTarget("cuda", 90, 32),
    "sm_100": GPUTarget("cuda", 100, 32),
    "sm_120": GPUTarget("cuda", 120, 32),
    "gfx942": GPUTarget("hip", "gfx942", 64),
}
KERNELS = {
    "attend": forward.attend_kernel,
    "assemble": assembly.assemble_kernel,
    "points": backward.points_kernel,
    "scatter": assembly.scatter_kernel,
    "scatter_keys": assembly.scatter_kernel,
    "assemble_weights": assembly.assemble_weights_kernel,
}
SECOND = {"scatter_keys"}  # the second launch of its kernel in a call: `scatter` makes dv, then dk


@dataclass(frozen=True)
class Problem:
    """A call of `attend`, or of `assemble` where D is None: B = 1, C value channels in each group, low-res maps of this
    size."""

    C: int = 256
    D: int | None = 32
    scale: float = 2
    kernel_size: Size = (5, 5)
    groups: int = 1
    low: Size = (64, 64)
    dtype: str = "float32"
    layout: str = "channels_last"
    q_layout: str | None = None  # where q does not lie as the other maps do
    has_bias: bool = False
    normalize: str = "softmax"
    border: str = "zero"

    def low_map(self, C: int) -> Tensor:
        return self._map(C, self.low, self.layout)

    def high_map(self, C: int, layout: str | None = None) -> Tensor:
        return self._map(C, self.high, layout or self.layout)

    @property
    def high(self) -> Size:
        return int(self.low[0] * self.scale), int(self.low[1] * self.scale)

    def _map(self, C: int, size: Size, layout: str) -> Tensor:
        x = torch.empty((1, C, *size), dtype=getattr(torch, self.dtype), device="meta")
        return x.to(memory_format=torch.channels_last) if layout == "channels_last" else x


class Driver:
    """What Triton asks of a driver before it compiles."""

    def __init__(self, target: GPUTarget) -> None:
        self.target = target

    def get_current_target(self) -> GPUTarget:
        return self.target

    def get_current_device(self) -> int:
        return list(TARGETS.values()).index(self.target)  # Triton keeps a kernel for each device

    def get_current_stream(self, device: int) -> int:
        return 0


def prepare(name: str, problem: Problem) -> Callable[[], object]:
    """The operator that launches this kernel, on maps without memory."""
    C, P = problem.C * problem.groups, problem.kernel_size[0] * problem.kernel_size[1]
    v, g = problem.low_map(C), problem.high_map(C)
    if problem.D is None:
        w, last = problem.high_map(P * problem.groups), (problem.kernel_size, problem.groups)
        if name == "assemble":
            return partial(operators.assemble, v, w, *last)
        return partial(operators.assemble_backward, g, v, w, *last)
    q, k = problem.high_map(problem.D, problem.q_layout), problem.low_map(problem.D)
    tables = [torch.empty(n, K, device="meta") for n, K in zip(problem.high, problem.kernel_size, strict=True)]
    bias = (tables[0], tables[1]) if problem.has_bias else None
    options = (bias, problem.kernel_size, problem.normalize, problem.border)
    if name == "attend":
        return partial(operators.attend, q, k, v, *options)
    return partial(operators.attend_backward, g, q, k, v, *options)


def build(name: str, problem: Problem, target: GPUTarget) -> Any:
    """The compiled kernel with the tile of the rules, and what was made on the way in its `asm`."""

    def first(kernel: Any, plan: Plan, arguments: Mapping[str, Any]) -> Meta:
        return plan.candidates[0]

    return _compiled(first, name, problem, target)


def launched(name: str, problem: Problem, target: str, place: int = 0) -> Any:
    """The compiled kernel that a launch would take on this target; or another one that it could, if it were tuned."""

    def fitting(kernel: Any, plan: Plan, arguments: Mapping[str, Any]) -> Meta:
        return list(islice(choice.fitting(kernel, plan, arguments), place + 1))[-1]

    with patch.object(choice, "spills", lambda compiled: spilled_bytes(compiled, target)):
        return _compiled(fitting, name, problem, TARGETS[target])


def _compiled(choose: Callable[..., Meta], name: str, problem: Problem, target: GPUTarget) -> Any:
    """What a call would launch under this name, with the tile that is chosen for it."""
    seen: list[Any] = []

    def compile_only(kernel: Any, plan: Plan, arguments: Mapping[str, Any]) -> None:
        if kernel is not KERNELS[name]:
            return
        is_it = len(seen) == (name in SECOND)
        seen.append(None)
        if is_it:
            meta = choose(kernel, plan, arguments)
            seen[-1] = kernel.run(grid=plan.programs, warmup=True, **arguments, **meta)

    driver.set_active(cast(Any, Driver(target)))
    with patch.object(launch, "run", compile_only), patch.object(launch, "_plans", {}):
        prepare(name, problem)()
    return seen[name in SECOND]
