"""What the compiler is told besides a tile: how many threads, and how many registers each may have."""

from collections.abc import Mapping
from typing import Any

from triton.backends.compiler import GPUTarget

WARP = 32  # threads
FUSED = {"enable_fp_fusion": True}  # a product and a sum in one instruction, which is not the default of every Triton
ALL_REGISTERS = 65536  # of a multiprocessor; a program may take them all
FEWER_THREADS = (86, 87, 89, 120, 121)  # at once, by a quarter, on GPUs that are not made for data centres


def most_warps(meta: Mapping[str, Any]) -> int:
    """What a multiprocessor has registers for, or a compute unit with its four SIMDs."""
    return ALL_REGISTERS // (WARP * meta["maxnreg"]) if "maxnreg" in meta else 4 * meta.get("waves_per_eu", 4)


def options_of(threads: int, registers: int, target: GPUTarget | None) -> dict[str, Any]:
    """What the compiler is told besides; there is no target in the interpreter."""
    if target is None:
        return {}
    options = {"num_warps": threads // WARP, "num_stages": 1}
    if target.backend == "hip":
        # a wave has 64 threads on AMD's data centre GPUs and 32 on the others
        waves = {"num_warps": threads // target.warp_size, "waves_per_eu": 256 // registers}
        return options | waves | FUSED
    if target.backend != "cuda":
        return options
    return options | FUSED | {"maxnreg": cap(registers, threads, target)}


def cap(registers: int, threads: int, target: GPUTarget) -> int:
    """Of a thread, so that whole blocks are as large a share of all threads as where they have so many registers."""
    wanted = ALL_REGISTERS // registers * (3 if target.arch in FEWER_THREADS else 4) // 4
    return ALL_REGISTERS // (ceil(wanted, threads) * threads) // 8 * 8


def ceil(n: int, size: int) -> int:
    # not triton.cdiv, which takes longer than all else here
    return -(-n // size)
