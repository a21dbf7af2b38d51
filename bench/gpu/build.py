"""Compile a kernel for a GPU that is not there, as a launch on that GPU would."""

from dataclasses import dataclass
from typing import Any

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from sapa.backends.triton import backward, forward
from sapa.backends.triton.launch import meta_of
from sapa.backends.triton.table import Tile

TARGETS = {
    "sm_80": GPUTarget("cuda", 80, 32),
    "sm_90": GPUTarget("cuda", 90, 32),
    "sm_100": GPUTarget("cuda", 100, 32),
    "sm_120": GPUTarget("cuda", 120, 32),
    "gfx942": GPUTarget("hip", "gfx942", 64),
}
KERNELS = {
    "attend": forward.attend_kernel,
    "assemble": forward.assemble_kernel,
    "points": backward.points_kernel,
    "values": backward.values_kernel,
    "keys": backward.keys_kernel,
    "bias": backward.bias_kernel,
    "assemble_values": backward.assemble_values_kernel,
    "assemble_weights": backward.assemble_weights_kernel,
}
TYPES = {"float64": "fp64", "float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}
WIDE = ("rows", "columns", "state", "parts")  # in the type of the sums whatever the maps are


@dataclass(frozen=True)
class Problem:
    """What a kernel is compiled for: C and D decide the tile, the scale decides U, the rest is only typed."""

    C: int = 256
    D: int = 32
    scale: int = 2
    dtype: str = "float32"
    layout: str = "channels_last"
    has_bias: bool = False
    normalize: str = "softmax"
    border: str = "zero"
    is_large: bool = False  # offsets of 64 bits

    @property
    def is_usual(self) -> bool:
        return self.scale == 2 and self.dtype != "float64" and not self.has_bias and not self.is_large


def build(name: str, tile: Tile, problem: Problem, target: GPUTarget) -> Any:
    """The compiled kernel, with what was made on the way in its `asm`."""
    kernel = KERNELS[name]
    D = problem.D if "D" in kernel.arg_names else None
    vendor = {"cuda": "nvidia", "hip": "amd"}[target.backend]
    meta = meta_of(tile, kernel, problem.scale**2, 1 << 20, problem.C, D, vendor, problem.is_usual)
    options = {name: meta.pop(name) for name in ("num_warps", "maxnreg") if name in meta}
    wide = "fp64" if problem.dtype == "float64" else "fp32"
    constants = {
        "INDEX": tl.int64 if problem.is_large else tl.int32,
        "ACC": tl.float64 if wide == "fp64" else tl.float32,
    }
    constants |= {"NORMALIZE": problem.normalize, "BORDER": problem.border, "AXIS": 0} | meta
    signature, constexprs, attrs = {}, {}, {}
    for place, argument in enumerate(kernel.arg_names):
        if argument in constants or (argument in ("rows", "columns") and not problem.has_bias):
            signature[argument] = "constexpr"
            constexprs[place,] = constants.get(argument)
        elif argument.endswith("_strides"):
            is_one = [False, problem.layout == "channels_last", False, problem.layout == "planar"]
            signature[argument] = tuple("constexpr" if one else "i32" for one in is_one)
            for part, one in enumerate(is_one):
                if one:
                    constexprs[place, part] = 1
                else:
                    attrs[place, part] = [["tt.divisibility", 16]]
        elif argument == "sizes":
            signature[argument] = ("i32",) * 6
        elif argument in ("C", "D", "G"):
            signature[argument] = "i32"
            if argument != "G":
                attrs[place,] = [["tt.divisibility", 16]]
        else:
            signature[argument] = f"*{wide if argument in WIDE else TYPES[problem.dtype]}"
            attrs[place,] = [["tt.divisibility", 16]]
    return triton.compile(ASTSource(kernel, signature, constexprs, attrs), target=target, options=options)
