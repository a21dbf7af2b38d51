"""The compile gate: every Triton kernel for every target, held to its limits from the binaries; and docs/gpu.md."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
pytest.importorskip("triton", reason="needs triton, which comes with PyTorch for Linux")
TARGETS = ("sm_80", "sm_90", "sm_100", "sm_120", "gfx942")


EVERY_CASE = ("sm_90", "gfx942")
SOME_CASES = ("A4", "B1")


@pytest.mark.parametrize("target", TARGETS)
def test_kernels_compile_within_their_limits(target: str) -> None:
    """In a process of its own: the compiler takes memory that it does not give back."""
    from bench.gpu.gate import cases, faults, tiles
    from bench.gpu.render import RESULTS

    chosen = [case.case for case in cases() if target in EVERY_CASE or case.case in SOME_CASES]
    code = f"""
import json
from bench.gpu.gate import cases, row, tiles
chosen = [*tiles(), *(case for case in cases() if case.case in {chosen})]
print(json.dumps([row(one, "{target}") for one in chosen]))
"""
    found = json.loads(run(code))
    assert len(found) == len(list(tiles())) + len(chosen)
    assert {f"{row['kernel']}, {row['case'] or row['layout']}": faults(row) for row in found if faults(row)} == {}
    committed = json.loads(RESULTS.read_text())["kernels"]
    committed = [row for row in committed if row["target"] == target and (not row["case"] or row["case"] in chosen)]
    assert found == committed, "the page tells of other kernels: python -m bench.gpu"


def test_every_committed_binary_is_within_its_limits() -> None:
    """Also those that the test above leaves to `python -m bench.gpu`; offsets are of 64 bits where the page says so."""
    from bench.gpu import cover
    from bench.gpu.gate import cases, faults, tiles
    from bench.gpu.render import RESULTS

    committed = json.loads(RESULTS.read_text())["kernels"]
    assert [fault for row in committed for fault in faults(row)] == []
    large = {case for case, problem in (cover.ATTEND | cover.ASSEMBLE).items() if problem.low[0] > 64}
    assert {row["case"] for row in committed if row["offsets"] == "int64"} == large
    assert all((row["offsets"] == "int64") == (row["case"] in large) for row in committed)
    expected = [(one.kernel, one.case, target) for target in TARGETS for one in (*tiles(), *cases())]
    assert [(row["kernel"], row["case"], row["target"]) for row in committed] == expected


def run(code: str) -> str:
    environment = {**os.environ, "TRITON_INTERPRET": "0", "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_kernels_are_built_as_they_are_launched() -> None:
    """With what Triton makes of the values of a call: a one is a constant, 16 divides, on AMD a small map says so."""
    code = """
from bench.gpu.build import TARGETS, Problem, build
small = Problem(D=None, layout="planar")
large = Problem(D=None, scale=3, groups=4, low=(2752, 2752), dtype="float16", layout="planar")
for problem, target in ((small, "sm_80"), (small, "gfx942"), (large, "gfx942")):
    source = build("assemble", problem, TARGETS[target]).src
    place = source.fn.arg_names.index
    G, sizes, strides, pointer = place("G"), place("sizes"), place("w_strides"), place("w")
    ones = {path for path in source.constants if path[0] in (G, sizes, strides)}
    names = {path: [name for name, _ in source.attrs[path]] for path in source.attrs}
    print(source.signature["sizes"], source.signature["w_strides"], source.constants[place("INDEX"),], sep="; ")
    print(ones == ({(strides, 3)} if problem is large else {(strides, 3), (G,)}))
    print([number for number in range(6) if names.get((sizes, number))], names[pointer,])
"""
    lines = run(code).splitlines()
    i32 = str(("i32",) * 6)
    strides = str(("i32", "i32", "i32", "constexpr"))
    assert lines[0] == lines[3] == f"{i32}; {strides}; int32"
    # a sample of 36 weights a point at this size ends beyond 32 bits
    assert lines[6] == f"{i32}; {('i64', 'i32', 'i32', 'constexpr')}; int64"
    assert lines[1] == lines[4] == lines[7] == "True"
    # H, W, low_h and low_w are multiples of 16, K is not
    assert lines[2] == "[0, 1, 2, 3] ['tt.divisibility']"
    assert lines[5] == "[0, 1, 2, 3] ['tt.divisibility', 'tt.pointer_range']"
    assert lines[8] == "[0, 1, 2, 3] ['tt.divisibility']"


def test_what_a_call_launches_compiles() -> None:
    """Up to the launch itself, with the constants that Triton makes of sizes and strides of one."""
    code = """
import torch
from triton.backends.compiler import GPUTarget
from triton.runtime.driver import driver
from triton.runtime.jit import JITFunction
from bench.gpu.inspect import spilled_bytes
from sapa.backends.triton import choice, operators

class Driver:
    def get_current_target(self): return GPUTarget("cuda", 80, 32)
    def get_current_device(self): return 0
    def get_current_stream(self, device): return 0

def compile_only(self, *args, grid, warmup, run=JITFunction.run, **kwargs):
    compiled = run(self, *args, grid=grid, warmup=True, **kwargs)
    if not warmup:
        print(self.fn.__name__, *grid, len(compiled.asm["cubin"]) > 0)
    return compiled

driver.set_active(Driver())
choice.spills = lambda compiled: spilled_bytes(compiled, "sm_80")
JITFunction.run = compile_only
for B, C, D, size, low, K in ((1, 1, 1, (1, 1), (1, 1), (1, 1)), (2, 5, 3, (5, 4), (2, 3), (3, 1))):
    q, k, v = torch.ones(B, D, *size), torch.ones(B, D, *low), torch.ones(B, C, *low)
    g, w = torch.ones(B, C, *size), torch.ones(B, K[0] * K[1], *size)
    bias = torch.ones(size[0], K[0]), torch.ones(size[1], K[1])
    operators.attend(q, k, v, None, K, "softmax", "zero")
    operators.attend_backward(g, q, k, v, bias, K, "softmax", "mask")
    operators.assemble(v, w, K, 1)
    operators.assemble_backward(g, v, w, K, 1)
"""
    names = ["attend", "points", "scatter", "scatter", "assemble", "scatter", "assemble_weights"]
    lines = run(code).splitlines()
    assert [line.split()[0].removesuffix("_kernel") for line in lines] == 2 * names
    # one program for a single point; of the other, of two samples, two rows of three cells: in strips of two or of four
    programs = [4 if name == "scatter" else 8 for name in names]
    assert [int(line.split()[1]) for line in lines] == len(names) * [1] + programs
    assert all(line.endswith("True") for line in lines)


@pytest.mark.parametrize("fault", ["spills", "threads", "shared"])
def test_the_driver_is_asked_whether_a_kernel_fits(fault: str) -> None:
    """Triton's own classes, with a driver that loads the first binary badly: the next tile is taken, now and later."""
    code = f"""
import torch
from triton.backends.compiler import GPUTarget
from triton.runtime.driver import driver
from sapa.backends.triton import launch, operators

class Utils:
    loaded = []
    def load_binary(self, name, kernel, shared, device):
        is_bad = not self.loaded
        self.loaded.append(name)
        return 1, 1, 64, 8 if is_bad and "{fault}" == "spills" else 0, 16 if is_bad and "{fault}" == "threads" else 1024
    def unload_module(self, module): pass
    def get_device_properties(self, device): return {{"max_shared_mem": 2816 if "{fault}" == "shared" else 10**6}}

class Launcher:
    def __init__(self, source, metadata): pass
    def __call__(self, *arguments): print("launched", arguments[0])

class Driver:
    utils, launcher_cls = Utils(), Launcher
    def get_current_target(self): return GPUTarget("cuda", 80, 32)
    def get_current_device(self): return 0
    def get_current_stream(self, device): return 0

driver.set_active(Driver())
for B in (1, 1, 2):
    maps = (torch.ones(B, C, n, n).to(memory_format=torch.channels_last) for C, n in ((32, 16), (32, 8), (256, 8)))
    operators.attend(*maps, None, (5, 5), "softmax", "zero")
print(*({{key: plan.chosen[key] for key in ("M", "BC", "num_warps")}} for plan in launch._plans.values()))
"""
    # 32 strips of two cells, each with 16 programs for its channels: with two warps instead of one, and without 3 KiB
    # of shared memory with two programs for its points
    chosen = {"M": 4 if fault == "shared" else 8, "BC": 16, "num_warps": 2}
    launched = [1024, 1024, 2048] if fault == "shared" else [512, 512, 1024]
    assert run(code).splitlines() == [*(f"launched {n}" for n in launched), f"{chosen} {chosen}"]


def test_a_launch_takes_the_first_tile_that_does_not_spill() -> None:
    """In calls whose first one does: the next of the table; half its channels; twice its threads; half its points."""
    code = """
from bench.gpu.build import TARGETS, Problem, build, launched
from bench.gpu.gate import holds
from bench.gpu.inspect import inspect
deep = Problem(C=1024, D=300, scale=3, low=(30, 30), border="mask")
large = Problem(256, 1, 16, (3, 3), low=(30, 30), dtype="bfloat16", layout="planar", has_bias=True, normalize="sigmoid")
for problem in (Problem(), Problem(scale=3, layout="planar"), deep, large):
    first, taken = build("attend", problem, TARGETS["sm_80"]), launched("attend", problem, "sm_80")
    found, held = inspect(taken, "sm_80"), [holds(one) for one in (first, taken)]
    print(inspect(first, "sm_80").spills > 0, found.spills, found.occupancy >= 0.5)
    print(*([one[key] for one in held] for key in ("M", "BC", "BD", "threads")))
"""
    assert run(code).splitlines() == [
        *("True 0 True", "[8, 8] [16, 32] [16, 16] [32, 64]"),
        *("True 0 True", "[16, 16] [32, 16] [16, 16] [64, 64]"),
        *("True 0 True", "[16, 16] [32, 32] [16, 16] [64, 128]"),
        *("True 0 True", "[256, 128] [16, 16] [16, 16] [512, 1024]"),
    ]


@pytest.mark.parametrize("layout", ["channels_last", "planar"])
def test_each_map_is_loaded_in_one_place(layout: str) -> None:
    """In the compiler's own words: a block of q, of k and of v as one matrix each, no number of it in several threads.

    At every scale and depth; no loop is around them but that over blocks of channels. How often a program goes through
    it is counted in test_triton_kernels.py.
    """
    code = f"""
import re
from bench.gpu.build import TARGETS, Problem, launched
from bench.gpu.gate import holds
for scale, D in ((2, 32), (3, 32), (5, 32), (8, 32), (16, 32), (4, 512)):
    compiled = launched("attend", Problem(C=64, D=D, scale=scale, low=(32, 32), layout="{layout}"), "sm_80")
    held, text = holds(compiled), compiled.asm["ttgir"]
    expected = [held["BD"] * held["M"], held["BD"] * held["T"], held["BC"] * held["T"]]
    found = []
    for line in text.splitlines():
        if "= tt.load " in line:
            shape = re.search(r"tensor<(\\d+)x(\\d+)x!tt.ptr", line)
            depth = (len(line) - len(line.lstrip())) // 2 - 2
            found.append((depth, int(shape[1]) * int(shape[2])))
    main = found[:3]
    print(scale, D, [depth for depth, _ in main], [n for _, n in main] == expected,
          [-(-held["threads"] // n) for _, n in main], len(found) - 3)
"""
    # of a window that is wider than a cell's, values once more: tap by tap, where a sum turns out to be NaN
    wider = int(layout == "planar")
    cells = ((2, 32, 1), (3, 32, wider), (5, 32, wider), (8, 32, 0), (16, 32, 0), (4, 512, wider))
    # where 1024 threads have 16 channels of 32 keys, two threads have each
    held = {16: "[1, 2, 1]"}
    lines = [f"{scale} {D} [1, 1, 1] True {held.get(scale, '[1, 1, 1]')} {again}" for scale, D, again in cells]
    assert run(code).splitlines() == lines


def test_targets_are_those_of_the_gate() -> None:
    from bench.gpu.build import TARGETS as built

    assert tuple(built) == TARGETS


def test_the_gate_finds_faults() -> None:
    from bench.gpu.gate import faults

    good = {"kernel": "attend", "case": "", "layout": "channels_last", "spills": 0, "occupancy": 0.5, "registers": 64}
    good |= {"dtype": "float32", "scale": 2, "loads": {"4": 4, "16": 1}, "once": {"16": 1}, "stores": {"16": 1}}
    good |= {"instructions": 300}
    assert faults(good) == []
    assert faults(good | {"spills": 8}) == ["spills 8"]
    assert faults(good | {"occupancy": 0.4}) == ["occupancy 40% with 64 registers, at least 50%"]
    assert faults(good | {"occupancy": 0.4, "kernel": "points"}) == []
    assert faults(good | {"loads": {"8": 9}}) == ["0% in loads of 16 bytes or more: {'8': 9}"]
    assert faults(good | {"loads": {"4": 5, "16": 1}}) == ["44% in loads of 16 bytes or more: {'4': 5, '16': 1}"]
    assert len(faults(good | {"loads": {"4": 5, "16": 1}, "instructions": 500, "scale": 16})) == 1
    assert faults(good | {"once": {}}) == ["no load of what one program alone needs"]
    assert faults(good | {"stores": {"8": 9}}) == ["no store of 16 bytes: {'8': 9}"]
    assert faults(good | {"stores": {"8": 9}, "kernel": "scatter"}) == []
    assert faults(good | {"loads": {"8": 1}, "dtype": "bfloat16"}) == []


def test_the_gate_knows_what_a_layout_and_a_case_can_do() -> None:
    from bench.gpu.gate import faults

    planar = {"kernel": "attend", "case": "", "layout": "planar", "spills": 0, "occupancy": 0.5, "registers": 64}
    planar |= {"dtype": "float32", "scale": 2, "loads": {"4": 4, "8": 2}, "once": {"4": 2, "8": 1}, "stores": {"8": 1}}
    planar |= {"instructions": 300}
    # a window in pairs at every scale; high-res points by as many as a cell has side by side
    assert faults(planar) == []
    assert faults(planar | {"loads": {"4": 5, "8": 2}}) == ["44% in loads of 8 bytes or more: {'4': 5, '8': 2}"]
    assert faults(planar | {"once": {"4": 3, "8": 1}}) == [
        "high-res maps in loads of less than 8 bytes: {'4': 3, '8': 1}"
    ]
    large = planar | {"scale": 4, "once": {"16": 1}, "stores": {"16": 1}}
    assert faults(large) == []
    assert len(faults(large | {"once": {"8": 1}})) == len(faults(large | {"stores": {"8": 1}})) == 1
    # single numbers are no more than one instruction in a hundred, if cells are large
    windows = planar | {"scale": 8, "loads": {"4": 5, "16": 1}, "once": {"16": 1}, "stores": {"16": 1}}
    assert faults(windows | {"instructions": 500}) == []
    assert len(faults(windows | {"instructions": 499})) == len(faults(windows | {"scale": 4})) == 1
    # what `scatter` reads once are weights, some taps of each point
    assert faults(planar | {"kernel": "scatter", "once": {"4": 2}}) == []
    case = planar | {"case": "A1", "once": {"4": 3}, "occupancy": 0.1}
    assert faults(case) == ["occupancy 10% with 64 registers, at least 50%"]
    assert faults(case) == faults(case | {"scale": 8}) == faults(case | {"dtype": "float64"})
    assert faults(case | {"occupancy": 0.5, "spills": 4}) == ["spills 4"]


def test_occupancy_is_that_of_the_published_calculator() -> None:
    from bench.gpu.inspect import occupancy

    assert occupancy("sm_80", 64, 0, 4) == 0.5
    assert occupancy("sm_80", 65, 0, 4) == 896 / 2048  # 72 registers are handed out: 7 blocks of 128 threads
    assert occupancy("sm_80", 32, 0, 4) == 1
    assert occupancy("sm_80", 32, 81 * 1024, 4) == 256 / 2048  # two blocks of 82 KiB in 164
    assert occupancy("sm_120", 64, 0, 4) == 1024 / 1536
    assert occupancy("sm_90", 16, 0, 1) == 0.5  # 32 blocks of one warp
    assert occupancy("sm_90", 80, 0, 1) == 24 / 64  # six in each of four partitions, and not a 25th across them
    assert occupancy("sm_120", 64, 0, 32) == 1024 / 1536  # one block of 1024 threads


def test_occupancy_of_amd_counts_whole_groups() -> None:
    from bench.gpu.inspect import amd_occupancy

    assert amd_occupancy(64, 0, 2) == 1  # 8 waves of 64 registers on each of four SIMDs
    assert amd_occupancy(66, 0, 2) == 7 / 8  # 72 registers are handed out
    assert amd_occupancy(66, 0, 16) == 0.5  # 28 waves are one group of 16
    assert amd_occupancy(64, 32 * 1024, 8) == 0.5  # two groups fill the memory they share


def test_widths_of_loads_are_read_from_the_assembly() -> None:
    """And which of them pass by the first-level cache, as what is read once does."""
    from bench.gpu.inspect import LOAD_AMD, LOAD_SASS, ONCE, STORE_AMD, STORE_SASS, amd_widths, widths

    sass = """
        /*0010*/ @!P1 LDG.E.128 R4, [R2.64] ;
        /*0020*/ LDG.E.128.STRONG.GPU R4, [R2.64] ;
        /*0030*/ LDG.E.64.STRONG.GPU R4, [R2.64] ;
        /*0040*/ LDG.E.U16 R4, [R2.64] ;
        /*0050*/ LDG.E R4, [R2.64] ;
        /*0060*/ LDS.128 R4, [R2] ;
        /*0070*/ STG.E.64 [R2.64], R4 ;
    """
    assert widths(LOAD_SASS, sass) == {16: 2, 8: 1, 2: 1, 4: 1}
    assert widths(LOAD_SASS, sass, ONCE) == {16: 1, 8: 1}
    assert widths(STORE_SASS, sass) == {8: 1}
    amd = "global_load_dwordx4 v[0:3], v1\nbuffer_load_dword v1, v2\nglobal_load_ushort v3, v4\nds_load_b32 v1"
    amd += "\nbuffer_load_dwordx4 v[2:5], v2, s[4:7], 0 offen nt\nbuffer_load_dwordx2 v[2:3], v0, 0 offen"
    amd += "\nglobal_store_dwordx2 v[0:1], v[2:3]\nbuffer_store_short v1, v2\nglobal_store_byte v1, v2"
    assert amd_widths(LOAD_AMD, amd) == {16: 2, 4: 1, 2: 1, 8: 1}
    assert amd_widths(LOAD_AMD, amd, once=True) == {16: 1}
    assert amd_widths(STORE_AMD, amd) == {8: 1, 2: 2}


def test_traffic_of_the_main_shape() -> None:
    """By hand: 32 + 256 numbers of 4 bytes at the point, and a quarter of as many at the low-res points."""
    from bench.gpu import model

    shape = model.Shape()
    assert model.forward_bytes(shape) == 4 * 288 + 288
    assert model.official_forward_bytes(shape) == 1440 + 4 * 25 * 4
    assert model.flops(shape) == 2 * 25 * 288
    # g twice, q twice, dq; k, v, dk and dv; 25 weights and 25 gradients of scores, written and read, whatever the maps
    assert model.backward_bytes(shape) == 4 * (512 + 96) + 576 + 16 * 25
    assert model.backward_bytes(model.Shape(itemsize=2)) == 2 * (512 + 96) + 288 + 16 * 25
    assert model.backward_flops(shape) == 2 * 25 * (2 * 256 + 3 * 32)
    # windows of 32 numbers for 25 taps; a strip of 4 cells reads the points of 8 in each of 5 rows, 40 cells for each
    assert model.executed(shape) == 2 * 32 * 288
    assert model.backward_executed(shape) == 2 * (32 * (256 + 64) + 40 * 288)
    # 30 numbers for 8 points; 160 points for 4 cells, and 25 taps twice, as there are two blocks of channels
    assert model.loaded("attend", shape) == 4 * (30 / 8 * 288 + 32)
    assert model.loaded("scatter", shape) == 4 * (160 / 16 * 256 + 2 * 25)
    assert model.roofline(2.039e12, 0, "A100") == 1
    assert model.roofline(0, 66.9e12, "H100") == 1
    assert model.issued(108 * 4 * 1.41e9) == 1


ASSEMBLY = """
        /*0000*/ MOV R1, c[0x0][0x28] ;
.L_x_2:
        /*0010*/ IADD3 R2, R2, 0x1, RZ ;
.L_x_1:
        /*0020*/ LDG.E R4, [R2.64] ;
.L_x_0:
        /*0030*/ BAR.SYNC 0x0 ;
        /*0040*/ FFMA R5, R4, R4, R5 ;
        /*0050*/ @!P0 BRA `(.L_x_0) ;
        /*0060*/ @!P1 BRA `(.L_x_1) ;
        /*0070*/ @!P2 BRA `(.L_x_2) ;
        /*0080*/ EXIT ;
.L_x_3:
        /*0090*/ BRA `(.L_x_3) ;
"""


def test_loops_are_read_from_the_assembly() -> None:
    """By hand: 3 instructions in the innermost of three loops, 5 in the middle, 7 in the outermost."""
    from bench.gpu.loops import innermost, loops, outermost

    found = loops(ASSEMBLY)
    assert [(loop.instructions, loop.products, loop.barriers) for loop in found] == [(7, 1, 1), (5, 1, 1), (3, 1, 1)]
    assert (outermost(found), innermost(found)) == (found[:1], found[2:])


def test_instructions_of_a_program_are_counted() -> None:
    """By hand: two beside the loops, and three loops inside one another."""
    from bench.gpu.loops import executed

    beside = 3  # and the jump of the last to itself
    assert executed(ASSEMBLY, [(1, (2, 5, 5))]) == (beside + 2 * (2 + 5 * (2 + 5 * 3)), [1])
    # what is not asked for is done only where a sum is NaN
    assert executed(ASSEMBLY, []) == (beside, [])
    for passes in ([(1, (5, 5))], [(2, (2, 5, 5))]):
        with pytest.raises(ValueError, match="3 loops, one inside the other, around Loop"):
            executed(ASSEMBLY, passes)


def test_page_is_made_from_the_results() -> None:
    from bench.gpu import render

    assert render.page() == render.PAGE.read_text(), "write it anew: python -m bench.gpu"
