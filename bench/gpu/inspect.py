"""What a compiled kernel takes: registers, spills, shared memory, widths of loads; and how full it lets a GPU be.

Limits are those that NVIDIA and AMD publish for one multiprocessor (SM) or one compute unit (CU).
"""

import re
import subprocess
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import triton

TOOLS = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"


@dataclass(frozen=True)
class Multiprocessor:
    registers: int
    threads: int
    blocks: int
    shared: int  # bytes


# CUDA C++ Programming Guide, technical specifications per compute capability
NVIDIA = {
    "sm_80": Multiprocessor(65536, 2048, 32, 164 * 1024),
    "sm_90": Multiprocessor(65536, 2048, 32, 228 * 1024),
    "sm_100": Multiprocessor(65536, 2048, 32, 228 * 1024),
    "sm_120": Multiprocessor(65536, 1536, 24, 100 * 1024),
}
PARTITIONS = 4  # of an SM
RESERVED = 1024  # bytes of shared memory that each block costs besides its own
# CDNA3 instruction set guide: each of the 4 SIMDs of a CU holds 8 waves and 512 registers for each of 64 lanes
SIMDS, WAVES, VECTOR_REGISTERS, LOCAL_DATA_SHARE = 4, 8, 512, 64 * 1024

SASS = r"\b{}((?:\.\w+)+)"
AMD = r"\b(?:global|buffer|flat)_{}_(?:dword(?:x(\d))?|(u?short|[us]?byte|[us]?\w*d16\w*))\b.*?( nt)?$"
LOAD_SASS, STORE_SASS = re.compile(SASS.format("LDG")), re.compile(SASS.format("STG"))
LOAD_AMD, STORE_AMD = (re.compile(AMD.format(way), re.MULTILINE) for way in ("load", "store"))
INSTRUCTION_SASS, INSTRUCTION_AMD = re.compile(r"/\*[0-9a-f]{4,}\*/"), re.compile(r"^\t[a-z]\w+", re.MULTILINE)
ONCE = "STRONG.GPU"  # passes by the first-level cache: `load_once`; on AMD it is nt
BYTES = {"128": 16, "64": 8, "U16": 2, "S16": 2, "U8": 1, "S8": 1}  # else 4


@dataclass(frozen=True)
class Found:
    registers: int
    spills: int  # bytes, or registers on AMD
    shared: int
    occupancy: float
    loads: dict[int, int]  # bytes of one load: how many there are
    once: dict[int, int]  # of these, loads of high-res maps
    stores: dict[int, int]
    instructions: int


def inspect(compiled: Any, target: str) -> Found:
    return amd(compiled) if target.startswith("gfx") else nvidia(compiled, target)


def spilled_bytes(compiled: Any, target: str) -> int:
    """What a thread keeps in memory, as drivers tell it: not scalar registers that AMD's compiler puts in lanes."""
    if target.startswith("gfx"):
        return int(re.findall(r"\.private_segment_fixed_size:\s+(\d+)", compiled.asm["amdgcn"])[-1])
    return int(re.findall(r"STACK:(\d+)", _dumped(compiled, "cuobjdump", "--dump-resource-usage"))[-1])


def nvidia(compiled: Any, target: str) -> Found:
    usage = _dumped(compiled, "cuobjdump", "--dump-resource-usage")
    registers, stack = (int(re.findall(rf"{key}:(\d+)", usage)[-1]) for key in ("REG", "STACK"))
    shared, warps = compiled.metadata.shared, compiled.metadata.num_warps
    text = disassembled(compiled)
    loads, once, stores = widths(LOAD_SASS, text), widths(LOAD_SASS, text, ONCE), widths(STORE_SASS, text)
    full, instructions = occupancy(target, registers, shared, warps), len(INSTRUCTION_SASS.findall(text))
    return Found(registers, stack, shared, full, loads, once, stores, instructions)


def widths(pattern: re.Pattern[str], text: str, kind: str = "") -> dict[int, int]:
    """Bytes of one load or store: how many there are, of those that end like this."""
    found = (flags[1:].split(".") for flags in pattern.findall(text) if flags.endswith(kind))
    return dict(Counter(next((BYTES[flag] for flag in flags if flag in BYTES), 4) for flags in found))


def amd_widths(pattern: re.Pattern[str], text: str, once: bool = False) -> dict[int, int]:
    found = ((words, narrow) for words, narrow, passes_by in pattern.findall(text) if passes_by or not once)
    return dict(Counter(2 if narrow else 4 * int(words or 1) for words, narrow in found))


def disassembled(compiled: Any) -> str:
    return _dumped(compiled, "nvdisasm", "-c")


def _dumped(compiled: Any, tool: str, *options: str) -> str:
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(compiled.asm["cubin"])
        file.flush()
        command = [str(TOOLS / tool), *options, file.name]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def occupancy(target: str, registers: int, shared: int, warps: int) -> float:
    """The share of its threads that an SM can hold at once. Partitions hand registers out to warps, 256 at a time."""
    limit = NVIDIA[target]
    per_warp = -(-registers * 32 // 256) * 256
    by_registers = PARTITIONS * (limit.registers // PARTITIONS // per_warp) // warps
    blocks = min(by_registers, limit.shared // (shared + RESERVED), limit.threads // (32 * warps), limit.blocks)
    return 32 * warps * blocks / limit.threads


def amd(compiled: Any) -> Found:
    text, warps = compiled.asm["amdgcn"], compiled.metadata.num_warps

    def number(key: str) -> int:
        return int(re.findall(rf"\.{key}:\s+(\d+)", text)[-1])

    registers, shared = number("vgpr_count"), number("group_segment_fixed_size")
    shared = max(shared, compiled.metadata.shared)
    spills = number("vgpr_spill_count") + number("sgpr_spill_count")
    loads, once, stores = amd_widths(LOAD_AMD, text), amd_widths(LOAD_AMD, text, once=True), amd_widths(STORE_AMD, text)
    full, instructions = amd_occupancy(registers, shared, warps), len(INSTRUCTION_AMD.findall(text))
    return Found(registers, spills, shared, full, loads, once, stores, instructions)


def amd_occupancy(registers: int, shared: int, warps: int) -> float:
    """The share of its waves that a CU can hold at once. A group of them is on one CU, or not at all."""
    waves = SIMDS * min(WAVES, VECTOR_REGISTERS // (-(-registers // 8) * 8))
    groups = waves // warps if not shared else min(waves // warps, LOCAL_DATA_SHARE // shared)
    return groups * warps / (SIMDS * WAVES)
