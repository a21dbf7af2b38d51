"""What a call takes on the processor before the GPU has anything to do: our part of its launches, and Triton's own.

Measured without a GPU, on maps without memory, up to where the driver would be called. Compiling is not in it.
"""

from typing import Any, cast
from unittest.mock import patch

from triton.runtime.driver import driver
from triton.runtime.jit import JITFunction

from bench.gpu.build import TARGETS, Driver, Problem, prepare
from sapa.backends.triton import choice, launch
from sapa.bench.timing import interleaved

# each with one of its kernels
CALLS = {
    "attend": ("attend", Problem()),
    "attend, backward": ("points", Problem()),
    "assemble": ("assemble", Problem(D=None)),
}
SECONDS = 1.0


def measure(seconds: float = SECONDS) -> list[dict[str, Any]]:
    """Microseconds of each call, the three parts mixed: the first like it, any later one, and Triton's part of it."""
    driver.set_active(cast(Any, Driver(TARGETS["sm_80"])))
    run, rows = JITFunction.run, []
    for name, (kernel, problem) in CALLS.items():
        again, launches = prepare(kernel, problem), []

        def note(self: Any, grid: Any, warmup: bool, launches: Any = launches, **arguments: Any) -> None:
            if not warmup:
                launches.append((self, arguments))

        def first(call: Any = again) -> None:
            launch._plans.clear()
            call()

        def triton(launches: Any = launches) -> None:
            for one, arguments in launches:
                run(one, grid=(1,), warmup=True, **arguments)

        with patch.object(choice, "spills", lambda compiled: 0):
            with patch.object(JITFunction, "run", note):
                again()
            with patch.object(JITFunction, "run", lambda self, **arguments: None):
                times = interleaved({"first": first, "again": again, "triton": triton}, seconds)
        rows.append(
            {"call": name, "launches": len(launches), **{way: round(1e3 * one["ms"], 2) for way, one in times.items()}}
        )
    return rows
