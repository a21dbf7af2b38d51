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

ROOT = Path(__file__).parents[1]
triton = pytest.importorskip("triton", reason="needs triton, which comes with PyTorch for Linux")
GPUTarget = triton.backends.compiler.GPUTarget


@pytest.mark.parametrize(
    ("file", "least"), [("test_triton_kernels.py", 22), ("test_backends.py", 17), ("test_functional.py", 31)]
)
def test_in_the_interpreter(file: str, least: int) -> None:
    """The kernels through the tests of every backend, in a process in which Triton interprets them."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(ROOT / "tests" / file)]
    # numpy says so where the kernels mean an infinity
    command += ["-W", "ignore::RuntimeWarning", "-k", "triton"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_XDIST")}
    environment |= {"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=ROOT)
    assert done.returncode == 0, done.stdout[-3000:]
    (passed,) = re.findall(r"(\d+) passed", done.stdout)
    assert int(passed) >= least, done.stdout[-3000:]


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
    monkeypatch.setattr(kernels, "find_spec", lambda name: None)
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

    g, state = (torch.empty(1, C, 30_000, 30_000, device="meta") for C in (1, 3))
    sizes = (30_000, 30_000, 15_000, 15_000, 5, 5)
    assert not needs_int64([g, None, "softmax"], sizes)
    assert needs_int64([g, state], sizes)


NVIDIA = GPUTarget("cuda", 90, 32)


def test_tiles_are_cut_to_the_problem() -> None:
    from sapa.backends.triton.assembly import assemble_kernel
    from sapa.backends.triton.backward import keys_kernel
    from sapa.backends.triton.fit import Work, meta_of
    from sapa.backends.triton.forward import attend_kernel
    from sapa.backends.triton.table import Tile

    amd, radeon, xpu = GPUTarget("hip", "gfx942", 64), GPUTarget("hip", "gfx1100", 32), GPUTarget("xpu", "", 16)
    tile = Tile(32, 64, 32, 4)
    usual = {"U": 4, "V": 1, "N": 8, "BC": 64, "BD": 32, "ONE_D": True, "num_warps": 4, "maxnreg": 128}
    assert meta_of(tile, attend_kernel, Work(4, 4096, 256, 32, 1), NVIDIA) == usual
    # planar: two neighbours make one load
    assert meta_of(tile, attend_kernel, Work(4, 4096, 256, 32, 2, "planar"), NVIDIA) == usual | {"U": 2, "V": 2}
    # few channels, as of a depth map: the threads take cells instead
    depth = usual | {"N": 64, "BC": 1, "BD": 4}
    assert meta_of(tile, attend_kernel, Work(4, 4096, 1, 4, 1), NVIDIA) == depth
    assert meta_of(tile, assemble_kernel, Work(9, 4, 48, None, 1), xpu) == {
        **{"U": 16, "V": 1, "N": 2, "BC": 64},
        "num_warps": 4,
    }
    keys = {"U": 1, "V": 1, "N": 16, "BC": 64, "BD": 32, "ONE_C": True, "ONE_D": False}
    lone = Work(1, 64, 64, 33, 1, owns="cells")
    assert meta_of(tile, keys_kernel, lone, amd) == keys | {"num_warps": 2}
    assert meta_of(tile, keys_kernel, lone, radeon) == keys | {"num_warps": 4}
    assert meta_of(tile, keys_kernel, lone, None) == keys | {"N": 32}
    # a program of low-res points takes the high-res points of its cells in turns
    assert meta_of(tile, keys_kernel, Work(64, 4096, 64, 32, 1, owns="cells"), NVIDIA)["U"] == 16


def test_a_large_cell_takes_more_threads_and_stays_whole() -> None:
    from sapa.backends.triton.backward import points_kernel
    from sapa.backends.triton.fit import Work, meta_of
    from sapa.backends.triton.forward import attend_kernel
    from sapa.backends.triton.table import FORWARD, Tile

    tile = Tile(16, 128, 32, 4, FORWARD)

    def held(phases: int, target: GPUTarget = NVIDIA, tile: Tile = tile, **options: Any) -> tuple[int, ...]:
        work = replace(Work(phases, 4096, C=256, D=32, V=1), **options)
        meta = meta_of(tile, attend_kernel if tile.registers == FORWARD else points_kernel, work, target)
        return meta["U"] * meta["V"], meta["N"], meta["BC"], meta["BD"], meta["num_warps"]

    assert held(4) == (4, 4, 128, 32, 4)
    assert held(16) == (16, 1, 128, 32, 4)
    assert held(64) == (64, 1, 128, 32, 16)
    assert held(64, GPUTarget("hip", "gfx942", 64)) == (64, 1, 128, 32, 8)
    # all registers of a multiprocessor are taken: blocks have fewer channels
    assert held(256) == (256, 1, 64, 32, 32)
    assert held(256, C=16) == (256, 1, 16, 32, 32)
    assert held(256, tile=Tile(32, 32, 32, 4, FORWARD), V=4, layout="planar") == (256, 1, 32, 32, 32)
    assert held(1024) == held(300) == (256, 1, 64, 32, 32)
    # twice the registers for each thread of a backward kernel leave half as many threads; larger cells are shared
    assert held(256, tile=Tile(32, 32, 32, 4)) == (128, 1, 32, 32, 16)
    # more registers for each point: fewer cells, or more threads for a cell
    assert held(4, extras=1) == (4, 2, 128, 32, 4)
    assert held(4, is_mixed=True) == held(4, is_large=True) == held(4, C=100) == (4, 2, 128, 32, 4)
    assert held(64, extras=1) == (64, 1, 128, 32, 32)
    # deep queries stay in registers, where there are threads for them and nothing else takes registers
    assert held(16, D=256) == (16, 1, 128, 256, 16)
    assert held(64, D=128) == (64, 1, 128, 128, 32)
    assert held(64, D=256) == (64, 1, 128, 32, 32)
    assert held(16, D=256, extras=1) == (16, 1, 128, 32, 8)
    # numbers of float64 take two registers
    assert held(4, is_double=True) == (4, 1, 32, 32, 4)
    assert held(64, is_double=True) == (16, 1, 32, 32, 16)


@pytest.mark.parametrize("layout", ["channels_last", "planar"])
@pytest.mark.parametrize("name", ["attend", "assemble"])
def test_a_program_holds_whole_cells_in_every_call(name: str, layout: str) -> None:
    """Each key and value serves all points of its cell: up to scale 8, but where four things or more take registers."""
    from sapa.backends.triton.assembly import assemble_kernel
    from sapa.backends.triton.fit import Work, meta_of, neighbours
    from sapa.backends.triton.forward import attend_kernel
    from sapa.backends.triton.table import TILES

    kernel, flags = {"attend": attend_kernel, "assemble": assemble_kernel}[name], (False, True)
    depths = (4, 32, 64, 512) if name == "attend" else (None,)
    for tile, S, C, D in product(TILES[name][layout], range(1, 9), (1, 100, 256), depths):
        for extras, uneven, ragged, mixed, large in product((0, 1, 2), flags, flags, flags, flags):
            V = 1 if uneven else neighbours(S, layout)
            work = Work(S * S, 4096, C, D, V, layout, "points", extras, uneven, ragged, mixed, large)
            if work.takes(tile) < 4:
                meta = meta_of(tile, kernel, work, NVIDIA)
                assert meta["U"] * meta["V"] >= S * S, work
                assert meta["num_warps"] <= 32


@pytest.mark.parametrize(
    ("name", "layout", "shared"),
    [
        ("attend", "channels_last", ()),
        ("attend", "planar", (13, 15)),
        ("assemble", "channels_last", range(9, 16)),
        ("assemble", "planar", ()),
        ("points", "channels_last", range(12, 17)),
        ("points", "planar", range(12, 17)),
        ("assemble_weights", "channels_last", range(12, 17)),
        ("assemble_weights", "planar", range(12, 17)),
        ("bias", "channels_last", range(9, 17)),
        ("bias", "planar", range(9, 17)),
    ],
)
def test_where_programs_share_a_cell_in_the_usual_call(name: str, layout: str, shared: Sequence[int]) -> None:
    """As docs/gpu.md has it, up to scale 16."""
    from sapa.backends.triton import assembly, backward, forward
    from sapa.backends.triton.fit import Work, meta_of, neighbours
    from sapa.backends.triton.table import TILES

    kernel = (vars(forward) | vars(backward) | vars(assembly))[f"{name}_kernel"]
    tile, D, extras = TILES[name][layout][0], None if name.startswith("assemble") else 32, int(name == "bias")
    works = {S: Work(S * S, 4096, 256, D, neighbours(S, layout), layout, extras=extras) for S in range(1, 17)}
    metas = {S: meta_of(tile, kernel, work, NVIDIA) for S, work in works.items()}
    assert [S for S, meta in metas.items() if meta["U"] * meta["V"] < S * S] == [*shared]


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
