"""One case: a shape, a memory format and the rest of the settings, and the times of everything in it."""

import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

import torch

from sapa.bench.peers import GEMM, SCALE, peers
from sapa.bench.rivals import RIVALS
from sapa.bench.timing import Function, interleaved, threads

FORWARD = (
    *("attend", "unfold", "shift loop", "bilinear", "bicubic"),
    *("conv_transpose", "grid_sample", "copy", "gemm"),
)
TRAINED = tuple(f"{name}, trained" for name in FORWARD[:-2])
GPU_FORWARD = (*FORWARD[:-2], "assemble", *RIVALS, *FORWARD[-2:])
GPU_TRAINED = tuple(f"{name}, trained" for name in GPU_FORWARD[:-2])


@dataclass(frozen=True)
class Case:
    shape: tuple[int, int, int, int] = (1, 256, 64, 64)  # [B, C, h, w] of the low-res map
    layout: str = "NCHW"
    kernel_size: int = 5
    embed_dim: int = 32
    dtype: str = "float32"
    threads: int = 2
    device: str = "cpu"

    def flops(self) -> int:
        """Of attend: a multiplication and an addition for each tap, and each channel of scores and values."""
        B, C, h, w = self.shape
        return 2 * B * (SCALE * h) * (SCALE * w) * self.kernel_size**2 * (C + self.embed_dim)


def measure(
    case: Case,
    names: Iterable[str] = FORWARD + TRAINED,
    seconds: float = 0.5,
    tick: Callable[[float], None] | None = None,
) -> dict[str, Any]:
    """Time the named functions of a case side by side, about `seconds` each; see `FORWARD` and `TRAINED` for names.

    What cannot run here is left out with the reason: the shift loop needs a C++ compiler, the CUDA extensions must be
    installed, old versions of PyTorch lack some functions in bfloat16. The shift loop takes up to a minute to compile.

    >>> measure(Case((1, 64, 32, 32)), ["attend", "bilinear"])["times"]["attend"]["ms"]
    """
    torch.manual_seed(0)
    torch.compiler.reset()
    with threads(case.threads):
        found = peers(
            case.shape, case.layout, case.kernel_size, case.embed_dim, getattr(torch, case.dtype), case.device
        )
        ready: dict[str, Function] = {}
        left_out: dict[str, str] = {}
        first: dict[str, float] = {}  # seconds
        for name in names:
            start = time.perf_counter()
            try:
                peer = found[name.removesuffix(", trained")]
                function = peer.trained() if name in GPU_TRAINED else peer.forward()
                function()
            except Exception as error:
                if name.startswith("attend"):
                    raise
                left_out[name] = f"{type(error).__name__}: {error}".splitlines()[0]
            else:
                ready[name] = function
                first[name] = time.perf_counter() - start
        times = interleaved(ready, seconds, tick, case.device)
    result = asdict(case) | {"times": times, "left_out": left_out}
    result["compile_seconds"] = {name: round(first[name], 1) for name in ready if name.startswith("shift loop")}
    if "attend" in times:
        result["gflops"] = round(1e-6 * case.flops() / times["attend"]["ms"], 2)
    if "gemm" in times:
        result["gemm_gflops"] = round(1e-6 * 2 * GEMM**3 / times["gemm"]["ms"], 2)
    return result
