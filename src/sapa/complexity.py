"""What an upsampler or any other module costs: parameters, multiply-accumulates, time and memory of a forward pass."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from statistics import median
from time import perf_counter
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from sapa.checks import positive, whole_pair
from sapa.geometry import Size
from sapa.nn import Upsampler, build

# what FlopCounterMode leaves out: taps of each value that is interpolated or sampled
TAPS = {
    torch.ops.aten.upsample_bilinear2d: 4,
    torch.ops.aten.upsample_bicubic2d: 16,
    torch.ops.aten.grid_sampler_2d: 4,
}


@dataclass(frozen=True)
class Cost:
    """Of one forward pass.

    Attributes:
        parameters: all of them, norms and biases too.
        macs: multiply-accumulates of convolutions, matrix products, the operators of this library, interpolation and
            sampling; not of norms, activations and other elementwise work.
        milliseconds: median of runs on this machine.
        megabytes: the most that PyTorch's tensors took at once, output included, beyond inputs and parameters (MiB).
    """

    parameters: int
    macs: int
    milliseconds: float
    megabytes: float


def cost(
    upsampler: str | nn.Module,
    *example: Any,
    channels: int = 256,
    guide_channels: int | None = None,
    size: int | Size = 64,
    scale: int | Size = 2,
    seconds: float = 0.2,
    **options: Any,
) -> Cost:
    """Count and measure an upsampler by its name, or any module with an example of its inputs.

    Args:
        upsampler: a name in `sapa.UPSAMPLERS`, or a module, which is measured in eval mode and then as it was.
        example: the inputs of a module; an upsampler of this library can do without.
        channels, guide_channels, scale, options: of the upsampler that is built, for a name.
        size: (h, w) of the low-res map, or one number for both.
        seconds: how long to measure.

    >>> sapa.cost("sapa_b", channels=256, size=64).macs
    285736960
    >>> sapa.cost(model, photo)
    """
    if isinstance(upsampler, str):
        if example:
            raise TypeError(f"cost: inputs for {upsampler!r} are made here, from channels, size and scale.")
        module: nn.Module = build(upsampler, channels, guide_channels, scale=scale, **options)
    elif isinstance(upsampler, nn.Module):
        if options:
            raise TypeError(f"cost: {', '.join(options)}: options are for an upsampler that is built by its name.")
        module = upsampler
    else:
        raise TypeError(f"cost: give the name of an upsampler or a module, got {type(upsampler).__name__}.")
    if not example:
        if not isinstance(module, Upsampler):
            raise TypeError(f"cost: {type(module).__name__} needs an example of its inputs: cost(module, x).")
        example = example_of(module, size)
    with _evaluated(module):
        # counting comes first, and so also warms up
        macs = multiply_accumulates(module, *example)
        milliseconds = _median_seconds(lambda: module(*example), seconds) * 1e3
        return Cost(parameters(module), macs, milliseconds, _peak_bytes(lambda: module(*example)) / 2**20)


def parameters(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def multiply_accumulates(module: nn.Module, *example: Any) -> int:
    return counted(module, *example).get_total_flops() // 2


def counted(module: nn.Module, *example: Any) -> FlopCounterMode:
    """The counter after one forward pass, for the parts of the whole. FLOPs are two for a multiply-accumulate."""
    formulas = {op: _interpolation(taps) for op, taps in TAPS.items()}
    with _evaluated(module), _not_written_out(), FlopCounterMode(display=False, custom_mapping=formulas) as counter:
        module(*example)
    return counter


def on_paper(name: str, channels: int = 256, guide_channels: int | None = None) -> Upsampler:
    """An upsampler of which only the shapes exist, to be counted without any work."""
    with torch.device("meta"):
        return build(name, channels, guide_channels).eval()


def example_of(up: Upsampler, size: int | Size = 64, device: str | torch.device | None = None) -> tuple[Tensor, ...]:
    """Maps to call `up` with: the guide only if it is needed. They lie where its parameters do, or on `device`."""
    h, w = whole_pair("cost", "size", size)
    positive("cost", h=h, w=w)
    parameter = next(up.parameters(), None)
    device = device if parameter is None else parameter.device
    dtype = None if parameter is None else parameter.dtype
    x = torch.randn(1, up.channels, h, w, device=device, dtype=dtype)
    if not up.needs_guide:
        return (x,)
    return x, torch.randn(1, up.guide_channels, up.scale[0] * h, up.scale[1] * w, device=device, dtype=dtype)


def _interpolation(taps: int) -> Any:
    def flops(*_: Any, out_shape: tuple[int, ...], **__: Any) -> int:
        return 2 * taps * prod(out_shape)

    return flops


@contextmanager
def _evaluated(module: nn.Module) -> Iterator[None]:
    modes = {part: part.training for part in module.modules()}
    module.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for part, mode in modes.items():
            part.training = mode


@contextmanager
def _not_written_out() -> Iterator[None]:
    """A deterministic interpolation is elementwise on most devices, where it would not be counted."""
    mode, is_warning = (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
    )
    torch.use_deterministic_algorithms(False)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(mode, warn_only=is_warning)


def _median_seconds(run: Callable[[], object], seconds: float) -> float:
    times: list[float] = []
    end = perf_counter() + seconds
    while len(times) < 3 or perf_counter() < end:
        start = perf_counter()
        run()
        if torch.accelerator.is_available():
            torch.accelerator.synchronize()
        times.append(perf_counter() - start)
    return median(times)


@contextmanager
def _quiet_profiler() -> Iterator[None]:
    """When it is first used it decides whether to report each start and stop, and that there is no GPU."""
    level = os.environ.get("KINETO_LOG_LEVEL")
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    try:
        yield
    finally:
        if level is None:
            os.environ.pop("KINETO_LOG_LEVEL", None)


def _peak_bytes(run: Callable[[], object]) -> int:
    activities = [torch.profiler.ProfilerActivity.CPU]
    with _quiet_profiler(), torch.profiler.profile(activities=activities, profile_memory=True) as profile:
        run()
    results: Any = profile.profiler and profile.profiler.kineto_results
    live = peak = 0
    for _, change in sorted((e.start_ns(), e.nbytes()) for e in results.events() if e.name() == "[memory]"):
        live += change
        peak = max(peak, live)
    return peak
