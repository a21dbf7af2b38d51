"""Times of several functions side by side: calls are mixed, so that a slow moment of the machine meets them all.

A GPU works behind the back of the processor; there, a call is timed by the events of its own stream."""

import os
import platform
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

import sapa

Function = Callable[[], object]
Clock = Callable[[Function], float]  # seconds of one call
FEWEST, MOST = 3, 1000  # calls of one function
CYCLES = 2_000_000  # of a GPU, about a millisecond: so long it sleeps while a call is launched behind the sleep


def interleaved(
    functions: Mapping[str, Function],
    seconds: float = 1.0,
    tick: Callable[[float], None] | None = None,
    device: str = "cpu",
) -> dict[str, dict[str, float]]:
    """Median and quartiles in milliseconds of each function, called for about this long each.

    >>> interleaved({"copy": x.clone, "sum": x.sum}, seconds=0.1)["copy"]["ms"]
    """
    return {name: summary(values) for name, values in samples(functions, seconds, tick, device).items()}


def samples(
    functions: Mapping[str, Function],
    seconds: float,
    tick: Callable[[float], None] | None = None,
    device: str = "cpu",
) -> dict[str, list[float]]:
    """The milliseconds of each call. A slow function is called less often, and yet from the start to the end."""
    clock = clock_of(device)
    calls: list[tuple[float, str]] = []  # moment between 0 and 1, function
    for name, function in functions.items():
        count = min(max(round(seconds / _estimate(function, seconds, clock)), FEWEST), MOST)
        calls += [((i + 0.5) / count, name) for i in range(count)]
    times: dict[str, list[float]] = {name: [] for name in functions}
    for done, (_, name) in enumerate(sorted(calls), 1):
        times[name].append(1e3 * clock(functions[name]))
        if tick is not None:
            tick(done / len(calls))
    return times


def summary(values: list[float]) -> dict[str, float]:
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return {"ms": round(median, 5), "low": round(low, 5), "high": round(high, 5), "runs": len(values)}


@contextmanager
def threads(number: int) -> Iterator[None]:
    """Let PyTorch, and with it our kernels, use this many threads inside the block."""
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def machine(device: str = "cpu") -> dict[str, Any]:
    """What the numbers depend on."""
    return {
        "processor": _processor() if torch.device(device).type == "cpu" else _accelerator(device),
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "sapa": sapa.__version__,
        "backends": sapa.status(device),
    }


def clock_of(device: str) -> Clock:
    """What times a call there."""
    if torch.device(device).type == "cpu":
        return _seconds
    module = torch.get_device_module(device)
    # CUDA has one; without it, a device may wait for the processor to launch, and small maps tell how long that takes
    sleep = getattr(module, "_sleep", None)

    def by_events(function: Function) -> float:
        begin, end = module.Event(enable_timing=True), module.Event(enable_timing=True)
        if sleep is not None:
            sleep(CYCLES)
        begin.record()
        function()
        end.record()
        end.synchronize()
        return 1e-3 * begin.elapsed_time(end)

    return by_events


def _estimate(function: Function, seconds: float, clock: Clock) -> float:
    # the first call allocates and starts threads, which matters only where calls are short
    first = clock(function)
    return first if first > seconds else clock(function)


def _seconds(function: Function) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def _accelerator(device: str) -> str:
    module = torch.get_device_module(device)
    return module.get_device_name(device) if hasattr(module, "get_device_name") else device


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()
