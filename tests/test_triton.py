"""The Triton backend without a GPU: its numbers in the interpreter, its choice of device, its tiles and tuning."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch

import sapa
from sapa import backends
from sapa.backends import reference
from sapa.backends import triton as kernels

TESTS = Path(__file__).parent
triton = pytest.importorskip("triton", reason="needs triton, which comes with PyTorch for Linux")
GPUTarget = triton.backends.compiler.GPUTarget


# files, and how many of their tests run on this backend at the least
INTERPRETED = {
    ("test_triton_kernels.py",): 40,
    ("test_backends.py",): 17,
    ("test_functional.py",): 31,
    ("test_golden.py",): 46,
    ("test_upsamplers.py",): 28,
    ("test_errors.py", "test_joint_bilateral.py", "test_ops.py", "test_project.py"): 48,
}


@pytest.mark.parametrize("files", INTERPRETED, ids=" ".join)
def test_in_the_interpreter(files: tuple[str, ...]) -> None:
    """The kernels through the tests of every backend, in a process in which Triton interprets them."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *(str(TESTS / file) for file in files)]
    # numpy says so where the kernels mean an infinity
    command += ["-W", "ignore::RuntimeWarning", "-k", "triton"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_XDIST")}
    environment |= {"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=TESTS.parent)
    assert done.returncode == 0, done.stdout[-3000:]
    (passed,) = re.findall(r"(\d+) passed", done.stdout)
    assert int(passed) >= INTERPRETED[files], done.stdout[-3000:]


def test_every_test_of_the_backends_runs_in_the_interpreter() -> None:
    asking = {path.name for path in TESTS.glob("test_*.py") if re.search(r"\bbackend: str\b", path.read_text())}
    assert {"test_triton_kernels.py", *asking} == {file for files in INTERPRETED for file in files}


def test_without_a_gpu_it_says_so() -> None:
    if torch.cuda.is_available() or torch.xpu.is_available():
        pytest.skip("this machine has a GPU, and so another answer")
    assert sapa.status()["triton"] == "PyTorch finds no cuda or xpu device"
    assert sapa.status("cpu")["triton"] == "it runs on cuda and xpu, not on cpu"
    assert sapa.status("mps")["triton"] == "it runs on cuda and xpu, not on mps"
    for device in ("cuda", "xpu", "mps"):
        assert backends.choose("attend", torch.device(device)) is reference


def test_in_the_interpreter_it_runs_on_the_processor_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    assert sapa.status("cpu")["triton"] == "ready"
    assert sapa.status("cuda")["triton"] == "it runs on cpu while TRITON_INTERPRET is 1, not on cuda"


def test_without_triton_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "_is_missing", lambda: True)
    expected = "triton is not installed; it comes with PyTorch for CUDA, ROCm and XPU"
    assert sapa.status()["triton"] == sapa.status("cuda")["triton"] == expected


class Driver:
    """Of Triton: one that starts, or one that cannot."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error

    @property
    def active(self) -> "Driver":
        if self.error is not None:
            raise self.error
        return self

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", 90, 32)


@pytest.fixture
def with_a_gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    monkeypatch.setattr(triton.runtime, "driver", Driver())
    for answer in (kernels._too_old, kernels._no_driver):
        answer.cache_clear()
    yield monkeypatch
    for answer in (kernels._too_old, kernels._no_driver):
        answer.cache_clear()


def test_with_a_gpu_it_is_preferred(with_a_gpu: pytest.MonkeyPatch) -> None:
    assert kernels.why_not(torch.device("cuda")) is None
    assert backends.choose("attend", torch.device("cuda")) is kernels


def test_on_an_old_gpu_it_says_so(with_a_gpu: pytest.MonkeyPatch) -> None:
    with_a_gpu.setattr(torch.cuda, "get_device_capability", lambda device: (7, 5))
    assert "compute capability 7.5" in (kernels.why_not(torch.device("cuda")) or "")
    assert backends.choose("attend", torch.device("cuda")) is reference


@pytest.mark.parametrize(
    ("version", "is_ready"), [("3.3.1", False), ("3.4.0+git1a2b", True), ("3.4.0.dev7", True), ("3.10.0", True)]
)
def test_with_an_old_triton_it_says_so(version: str, is_ready: bool, with_a_gpu: pytest.MonkeyPatch) -> None:
    with_a_gpu.setattr(triton, "__version__", version)
    reason = None if is_ready else "triton is 3.3.1; the kernels need 3.4 or later"
    assert kernels.why_not(torch.device("cuda")) == reason


@pytest.mark.parametrize("broken", ["cannot be imported", "has no version"])
def test_a_triton_that_is_broken_is_left_alone(broken: str, with_a_gpu: pytest.MonkeyPatch) -> None:
    def load(name: str) -> object:
        if broken == "cannot be imported":
            raise ImportError("libtriton.so: undefined symbol")
        return object()

    with_a_gpu.setattr(kernels, "import_module", load)
    reason = kernels.why_not(torch.device("cuda")) or ""
    assert reason.startswith("triton is installed, and cannot be imported: ")
    assert reason.endswith("libtriton.so: undefined symbol" if "imported" in broken else "attribute '__version__'")
    assert backends.choose("attend", torch.device("cuda")) is reference


def test_without_a_compiler_it_says_so_once(with_a_gpu: pytest.MonkeyPatch) -> None:
    error = RuntimeError("Failed to find C compiler.\nPlease specify via CC")
    with_a_gpu.setattr(triton.runtime, "driver", Driver(error))
    reason = kernels.why_not(torch.device("cuda"))
    assert reason is not None
    assert reason.endswith("a C compiler and the headers of Python: Failed to find C compiler.")
    assert backends.choose("attend", torch.device("cuda")) is reference
    with_a_gpu.setattr(triton.runtime, "driver", Driver())
    assert kernels.why_not(torch.device("cuda")) == reason


@pytest.mark.parametrize("function", ["attend", "attend_backward", "assemble", "assemble_backward"])
def test_more_low_res_points_than_can_be_counted(function: str) -> None:
    from sapa.backends.triton import operators

    q, k, v = (torch.empty(1, C, 2**16, 2**15, device="meta") for C in (2, 2, 3))
    window = (None, (3, 3), "softmax", "zero")
    calls = {
        "attend": lambda: operators.attend(q, k, v, *window),
        "attend_backward": lambda: operators.attend_backward(v, q, k, v, *window),
        "assemble": lambda: operators.assemble(v, q, (1, 1), 1),
        "assemble_backward": lambda: operators.assemble_backward(v, v, q, (1, 1), 1),
    }
    operator, _, _ = function.partition("_")
    name, C = ("k", 2) if operator == "attend" else ("v", 3)
    with pytest.raises(ValueError, match="Cut the maps into strips") as raised:
        calls[function]()
    assert str(raised.value).startswith(f"{operator}: {name} is [1, {C}, 65536, 32768] (B C h w): 2147483648 low-res")


@pytest.mark.parametrize("width", [2**16, 2**16 + 1])
def test_more_points_of_a_cell_than_can_be_counted(width: int) -> None:
    from sapa.backends.triton import operators

    q, k, v = (torch.empty(1, 1, *size, device="meta") for size in ((2**16, width), (1, 1), (1, 1)))
    with pytest.raises(ValueError, match="high-res points for each of its own, which the Triton kernels count") as told:
        operators.attend(q, k, v, None, (1, 1), "softmax", "zero")
    assert str(told.value).startswith("attend: k is [1, 1, 1, 1] (B C h w): ")


def test_offsets_grow_to_64_bits_only_where_they_must() -> None:
    from sapa.backends.triton.plan import needs_int64

    sizes = (128, 128, 64, 64, 5, 5)
    dense = torch.empty(4, 2048, 128, 128, device="meta")
    assert not needs_int64([dense], sizes)
    assert needs_int64([dense, torch.empty(1, 2**15 + 1, 256, 256, device="meta")], sizes)
    assert needs_int64([dense], (40_000, 128, 30_000, 64, 5, 5))
    # a gap between the channels counts, one between the samples does not: their place is always of 64 bits
    assert needs_int64([dense.as_strided((1, 2, 2, 2), (1, 2**31, 2, 1))], sizes)
    assert not needs_int64([dense.as_strided((2, 2, 2, 2), (2**31, 4, 2, 1))], sizes)


def test_offsets_count_what_is_kept_for_each_point() -> None:
    from sapa.backends.triton.plan import needs_int64

    g, windows = (torch.empty(1, C, 8000, 8000, device="meta") for C in (1, 2 * 25))
    sizes = (8000, 8000, 4000, 4000, 5, 5)
    assert not needs_int64([g, None, "softmax"], sizes)
    assert needs_int64([g, windows], sizes)
    rows, columns = torch.empty(2**27, 17, device="meta"), torch.empty(1, 17, device="meta")
    assert needs_int64([rows, columns], (2**27, 1, 1, 1, 17, 17))


NVIDIA = GPUTarget("cuda", 90, 32)


def test_tiles_are_cut_to_the_problem() -> None:
    from sapa.backends.triton.assembly import assemble_kernel, scatter_kernel
    from sapa.backends.triton.fit import Work, meta_of
    from sapa.backends.triton.forward import attend_kernel
    from sapa.backends.triton.table import Tile

    amd, radeon, xpu = GPUTarget("hip", "gfx942", 64), GPUTarget("hip", "gfx1100", 32), GPUTarget("xpu", "", 16)
    tile = Tile(32, 64, 32, 4)
    usual = {"U": 4, "V": 1, "N": 8, "BC": 64, "BD": 32, "sharing": 1, "cutting": 2, "num_warps": 4, "maxnreg": 128}
    work = Work(4, 4096, 256, 32, 1, taps=32)
    assert meta_of(tile, attend_kernel, work, NVIDIA) == usual
    # planar: two neighbours make one load
    assert meta_of(tile, attend_kernel, replace(work, V=2, layout="planar"), NVIDIA) == usual | {"U": 2, "V": 2}
    # few channels, as of a depth map: a program may hold more cells, but for a window of each point
    depth = replace(work, C=1, D=4, taps=8)
    assert meta_of(tile, attend_kernel, depth, NVIDIA) == usual | {"N": 32, "BC": 1, "BD": 4, "cutting": 1}
    assert meta_of(tile, attend_kernel, replace(depth, taps=32), NVIDIA)["N"] == 8
    assert meta_of(tile, assemble_kernel, Work(9, 4, 48, None, 1), xpu) == {
        **{"U": 16, "V": 1, "N": 2, "BC": 64, "LAST": True, "sharing": 1},
        "num_warps": 4,
    }
    values = {"U": 1, "V": 1, "N": 16, "BC": 64}
    lone = Work(1, 64, 64, None, 1, owns="cells")
    assert meta_of(tile, scatter_kernel, lone, amd) == values | {"num_warps": 2}
    assert meta_of(tile, scatter_kernel, lone, radeon) == values | {"num_warps": 4}
    assert meta_of(tile, scatter_kernel, lone, None) == values | {"N": 32}
    # a program of low-res points takes the high-res points of its cells in turns
    assert meta_of(tile, scatter_kernel, Work(64, 4096, 64, None, 1, owns="cells"), NVIDIA)["U"] == 16


def test_a_large_cell_takes_more_threads_and_stays_whole() -> None:
    from sapa.backends.triton.backward import points_kernel
    from sapa.backends.triton.fit import Work, meta_of
    from sapa.backends.triton.forward import attend_kernel
    from sapa.backends.triton.table import FORWARD, Tile

    tile = Tile(16, 128, 64, 4, FORWARD)

    def held(phases: int, target: GPUTarget = NVIDIA, tile: Tile = tile, **options: Any) -> tuple[int, ...]:
        work = replace(Work(phases, 4096, C=256, D=32, V=1, taps=32), **options)
        meta = meta_of(tile, attend_kernel if tile.registers == FORWARD else points_kernel, work, target)
        return meta["U"] * meta["V"], meta["N"], meta["BC"], meta["BD"], meta["num_warps"]

    assert held(4) == (4, 4, 128, 32, 4)
    assert held(16) == (16, 1, 128, 32, 4)
    assert held(64) == (64, 1, 128, 32, 16)
    assert held(64, GPUTarget("hip", "gfx942", 64)) == (64, 1, 128, 32, 8)
    # all registers of a multiprocessor are taken: blocks have fewer channels
    assert held(256) == (256, 1, 32, 32, 32)
    assert held(256, C=16) == (256, 1, 16, 32, 32)
    assert held(256, tile=Tile(16, 64, 64, 4, FORWARD), V=4, layout="planar") == (256, 1, 16, 32, 32)
    assert held(1024) == held(300) == (256, 1, 32, 32, 32)
    # twice the registers for each thread of a backward kernel leave half as many threads; larger cells take turns
    assert held(256, tile=Tile(32, 32, 32, 4)) == (128, 1, 32, 32, 16)
    # more registers for each point: fewer cells, or more threads for a cell
    assert held(4, extras=2) == (4, 2, 128, 32, 4)
    assert held(4, is_mixed=True) == held(4, is_large=True) == held(4, C=100, extras=1) == (4, 2, 128, 32, 4)
    assert held(64, extras=2) == (64, 1, 128, 32, 32)
    assert held(1) == (1, 8, 128, 32, 4)
    # deep queries come in blocks
    assert held(16, D=64) == held(16, D=4096) == (16, 1, 128, 64, 4)
    assert held(16, D=64, is_half=True) == (16, 1, 128, 32, 4)
    # a large window: fewer points, then more threads
    assert held(4, taps=64) == (4, 4, 128, 32, 4)
    assert held(4, taps=128) == (4, 2, 128, 32, 4)
    assert held(4, taps=1024) == (4, 1, 128, 32, 16)
    assert held(4, taps=8192) == (1, 1, 128, 32, 32)
    # numbers of float64 take two registers
    assert held(4, is_double=True) == (4, 1, 32, 32, 4)
    assert held(64, is_double=True) == (16, 1, 32, 32, 16)


@pytest.mark.parametrize("layout", ["channels_last", "planar"])
@pytest.mark.parametrize("name", ["attend", "assemble", "points", "assemble_weights"])
def test_a_program_makes_whole_cells_in_every_call(name: str, layout: str) -> None:
    """At any scale, with its window in the cache from the first turn to the last; but where cells are few."""
    from sapa.backends.triton import assembly, backward, forward
    from sapa.backends.triton.fit import ENOUGH, Work, meta_of, neighbours
    from sapa.backends.triton.table import TILES

    kernel, flags = (vars(forward) | vars(backward) | vars(assembly))[f"{name}_kernel"], (False, True)
    has_windows = "T" in kernel.arg_names
    depths = (None,) if name.startswith("assemble") else (4, 32, 512)
    for tile, S, C, D in product(TILES[name][layout], (1, 2, 3, 5, 8, 13, 16, 20, 64), (1, 100, 256), depths):
        for extras, uneven, mixed, large, T in product((0, 2), flags, flags, flags, (16, 32, 64)):
            V = 1 if uneven else neighbours(S, layout)
            work = Work(S * S, 2**14, C, D, V, layout, "points", extras, uneven, False, mixed, large)
            work = replace(work, taps=T if has_windows else None)
            meta = meta_of(tile, kernel, work, NVIDIA)
            threads, turns = 32 * meta["num_warps"], -(-S * S // (meta["U"] * meta["V"]))
            assert threads <= 1024
            assert 1 <= meta["sharing"] <= turns
            blocks = 2**14 // meta["N"]
            # one program fewer for each block would not be enough
            assert meta["sharing"] == 1 or blocks * (meta["sharing"] - 1) * threads < ENOUGH, work
            assert meta.get("cutting", 1) <= -(-C // meta["BC"])
            if not uneven and S <= 8 and T <= 32:
                assert turns == 1, work


def test_few_cells_are_shared() -> None:
    """1 x 1 to 64 x 64, as after a global mean: a GPU has more to do than one program."""
    from sapa.backends.triton.fit import Work, meta_of
    from sapa.backends.triton.forward import attend_kernel
    from sapa.backends.triton.table import TILES

    work, tile = Work(64 * 64, 1, 256, 32, 1, taps=25), TILES["attend"]["channels_last"][0]
    meta = meta_of(tile, attend_kernel, work, NVIDIA)
    assert (meta["U"], meta["sharing"], meta["cutting"]) == (256, 16, 8)
    meta = meta_of(tile, attend_kernel, replace(work, times=16), NVIDIA)
    assert (meta["sharing"], meta["cutting"]) == (8, 1)
    meta = meta_of(tile, attend_kernel, replace(work, cells=256), NVIDIA)
    assert (meta["sharing"], meta["cutting"]) == (1, 1)


def test_values_that_a_cache_cannot_keep_are_shared() -> None:
    """32 KiB are 327 channels of 25 taps, which the keys take up to half of, and values by blocks of 32. They are kept
    from one turn to the next, so only where there are turns.
    """
    from sapa.backends.triton.fit import Work, meta_of
    from sapa.backends.triton.forward import attend_kernel
    from sapa.backends.triton.table import TILES

    work, tile = Work(32 * 32, 256, 256, 32, 1, taps=25), TILES["attend"]["channels_last"][0]

    def cutting(**options: int) -> int:
        meta = meta_of(tile, attend_kernel, replace(work, **options), NVIDIA)
        assert meta["sharing"] == 1
        return meta["cutting"]

    assert [cutting(C=C) for C in (256, 288, 289, 512, 2048)] == [1, 1, 2, 2, 8]
    assert [cutting(D=D) for D in (4, 71, 72, 128, 1024)] == [1, 1, 2, 2, 2]
    assert cutting(taps=1, C=4096) == 1
    assert cutting(phases=16 * 16, C=2048) == 1


@pytest.mark.parametrize(
    ("name", "layout", "in_turns"),
    [
        ("attend", "channels_last", ()),
        ("attend", "planar", ()),
        ("assemble", "channels_last", range(9, 16)),
        ("assemble", "planar", ()),
        ("points", "channels_last", range(12, 17)),
        ("points", "planar", range(12, 17)),
        ("assemble_weights", "channels_last", range(12, 17)),
        ("assemble_weights", "planar", range(12, 17)),
    ],
)
def test_where_a_cell_takes_several_turns_in_the_usual_call(name: str, layout: str, in_turns: Sequence[int]) -> None:
    """As docs/gpu.md has it, up to scale 16; beyond, all do."""
    from sapa.backends.triton import assembly, backward, forward
    from sapa.backends.triton.fit import Work, meta_of, neighbours
    from sapa.backends.triton.table import TILES

    kernel = (vars(forward) | vars(backward) | vars(assembly))[f"{name}_kernel"]
    tile, D, T = TILES[name][layout][0], None if name.startswith("assemble") else 32, 32 if name != "assemble" else None
    works = {S: Work(S * S, 4096, 256, D, neighbours(S, layout), layout, taps=T) for S in range(1, 17)}
    metas = {S: meta_of(tile, kernel, work, NVIDIA) for S, work in works.items()}
    assert [S for S, meta in metas.items() if meta["U"] * meta["V"] < S * S] == [*in_turns]


@pytest.mark.parametrize(
    ("size", "layout", "expected"),
    [
        ((4, 6), "planar", (2, 2, 2)),
        ((4, 6), "channels_last", (2, 2, 1)),
        ((4, 12), "planar", (2, 4, 4)),
        ((16, 24), "planar", (8, 8, 4)),
        ((6, 9), "planar", (3, 3, 1)),
        ((2, 18), "planar", (1, 6, 2)),
        ((4, 7), "planar", (0, 0, 1)),
        ((5, 6), "planar", (0, 0, 1)),
    ],
)
def test_neighbours_are_loaded_together_at_whole_ratios(
    size: tuple[int, int], layout: str, expected: tuple[int, int, int]
) -> None:
    from sapa.backends.triton.fit import neighbours, steps

    SY, SX = steps((*size, 2, 3, 5, 5))
    assert (SY, SX, neighbours(SX, layout)) == expected
