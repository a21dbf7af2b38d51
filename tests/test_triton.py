"""The Triton backend without a GPU: its numbers in the interpreter, its choice of device, its tiles and tuning."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
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
    ("version", "is_ready"), [("3.4.1", False), ("3.5.0+git1a2b", True), ("3.5.0.dev7", True), ("3.10.0", True)]
)
def test_with_an_old_triton_it_says_so(version: str, is_ready: bool, with_a_gpu: pytest.MonkeyPatch) -> None:
    with_a_gpu.setattr(triton, "__version__", version)
    reason = None if is_ready else "triton is 3.4.1; the kernels need 3.5 or later"
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


@pytest.mark.parametrize(("height", "width", "low_w"), [(2**16, 2**14, 1), (2**15, 2**15, 2), (2**16, 2**15, 3)])
def test_more_points_of_cells_than_can_be_counted(height: int, width: int, low_w: int) -> None:
    """Of those that a program gathers from: 4 cells, and 2 beside them in a window of 3."""
    from sapa.backends.triton import operators

    q, k, v = (torch.empty(1, 1, *size, device="meta") for size in ((height, width), (1, low_w), (1, low_w)))
    window = (None, (1, 3), "softmax", "zero")
    message = f"{6 * height * width // low_w} high-res points around some of them, which the Triton kernels count"
    for call in (operators.attend, lambda *maps: operators.attend_backward(q, *maps)):
        with pytest.raises(ValueError, match=message) as told:
            call(q, k, v, *window)
        assert str(told.value).startswith(f"attend: k is [1, 1, 1, {low_w}] (B C h w): ")


def test_more_programs_than_a_gpu_launches() -> None:
    """2³¹ programs; on AMD, 2³² threads."""
    from sapa.backends.triton.fit import Work
    from sapa.backends.triton.plan import programs_of

    meta = {"N": 1, "M": 16, "BC": 16, "num_warps": 1}
    work = Work((256, 256, 64, 64, 5, 5), 16, 16, times=2**19 - 1)
    assert programs_of("attend", work, meta) == (2**31 - 2**12,)
    amd = meta | {"waves_per_eu": 4}
    assert programs_of("attend", replace(work, times=2**14 - 1), amd) == (2**26 - 2**12,)
    for times, where in ((2**19, meta), (2**14, amd)):
        with pytest.raises(
            ValueError, match=f"would take {times * 2**12} programs for {times} samples and groups of 64"
        ):
            programs_of("attend", replace(work, times=times), where)


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
Size = tuple[int, int]


def sizes_at(S: int, low: Size = (64, 64), K: Size = (5, 5)) -> tuple[int, int, int, int, int, int]:
    return (S * low[0], S * low[1], *low, *K)


def kernel_of(name: str) -> Any:
    from sapa.backends.triton import assembly, backward, forward

    return (vars(forward) | vars(backward) | vars(assembly))[f"{name}_kernel"]


def test_tiles_are_cut_to_the_problem() -> None:
    from sapa.backends.triton.fit import Work, meta_of
    from sapa.backends.triton.table import BACKWARD, FORWARD, Share, Tile

    amd, radeon, xpu = GPUTarget("hip", "gfx942", 64), GPUTarget("hip", "gfx1100", 32), GPUTarget("xpu", "", 16)
    share, work = Share(4, 4), Work(sizes_at(2), 256, 32)
    tile, kernel = Tile(4, 16, FORWARD, *[share] * 3, special=Share(4, 2)), kernel_of("attend")
    # two cells of four points; 30 numbers in the five rows of the window around both, four for each of 64 threads
    held = {"M": 8, "N": 2, "COLUMNS": 6, "T": 32, "BC": 32, "BD": 16, "cutting": 1}
    anywhere = held | {"num_stages": 1, "num_warps": 2}
    usual = anywhere | {"enable_fp_fusion": True, "maxnreg": 64}
    assert meta_of(tile, kernel, work, NVIDIA) == usual
    # three quarters of the threads at once leave more registers for each, as far as half of them is whole blocks
    desktop = GPUTarget("cuda", 120, 32)
    assert meta_of(tile, kernel, work, desktop) == usual | {"maxnreg": 80}
    caps = [meta_of(tile, kernel, replace(work, sizes=sizes_at(S)), desktop)["maxnreg"] for S in (4, 8, 11)]
    assert caps == [80, 64, 64]
    assert meta_of(replace(tile, registers=BACKWARD), kernel, work, desktop)["maxnreg"] == 168
    assert meta_of(tile, kernel, work, xpu) == anywhere
    assert meta_of(tile, kernel, work, None) == held
    # a wave of 64 threads, or of 32; four of them at once on each of the SIMDs of a compute unit
    waves = anywhere | {"enable_fp_fusion": True, "waves_per_eu": 4}
    assert meta_of(tile, kernel, work, amd) == waves | {"num_warps": 1}
    assert meta_of(tile, kernel, work, radeon) == waves
    # more for each of half as many threads, of which there are no fewer than in a wave
    lone = replace(tile, strip=Share(4, 8))
    assert meta_of(lone, kernel, work, NVIDIA) == usual | {"BC": 16, "num_warps": 1}
    assert meta_of(lone, kernel, work, radeon) == waves | {"BC": 16, "num_warps": 1}
    assert meta_of(lone, kernel, work, amd) == waves | {"num_warps": 1}
    # few channels, as of a depth map; products are of 16 numbers at least
    depth = meta_of(tile, kernel, replace(work, C=1, D=4), NVIDIA)
    assert (depth["BC"], depth["BD"]) == (16, 16)
    # a cell with a bias, or at a ratio that is not whole, takes less of each of its threads
    cell = usual | {"M": 16, "N": 1, "COLUMNS": 5, "num_warps": 4}
    assert meta_of(tile, kernel, replace(work, sizes=sizes_at(4)), NVIDIA) == cell
    special = cell | {"BC": 64, "num_warps": 8}
    assert meta_of(tile, kernel, replace(work, sizes=sizes_at(4), has_bias=True), NVIDIA) == special
    assert meta_of(tile, kernel, replace(work, sizes=(224, 224, 64, 64, 5, 5)), NVIDIA) == special
    # numbers of float64 take two registers
    double = meta_of(tile, kernel, replace(work, itemsize=8), NVIDIA)
    assert double == usual | {"BC": 16, "num_warps": 4}


def test_windows_of_planar_maps_load_in_pairs() -> None:
    """From an even column on: with one more column, where there is room, and where the window is much of the loads."""
    from sapa.backends.triton.fit import Work, meta_of
    from sapa.backends.triton.table import TILES

    def held(S: float, K: int, is_planar: bool = True, name: str = "attend") -> tuple[int, ...]:
        sizes = (int(S * 64), int(S * 64), 64, 64, K, K)
        meta = meta_of(TILES[name][0], kernel_of(name), Work(sizes, 256, 32, is_planar=is_planar), NVIDIA)
        return meta["N"], meta["COLUMNS"], meta["BC"]

    # two cells begin at an even column anyway
    assert held(2, 5) == held(2, 5, is_planar=False) == (2, 6, 16)
    # of larger cells fewer sums for each thread, whose loads take more registers
    assert (held(4, 5), held(4, 5, is_planar=False)) == ((1, 6, 32), (1, 5, 32))
    assert (held(8, 5), held(8, 5, is_planar=False)) == ((1, 5, 32), (1, 5, 64))
    assert [held(S, 5)[:2] for S in (2.5, 3, 5, 8, 16)] == [(1, 6), (1, 6), (1, 6), (1, 5), (1, 5)]
    assert [held(4, K)[1] for K in (3, 7, 9)] == [4, 8, 10]
    # 4 x 5 are more than 16
    assert held(4, 4)[1] == 4
    assert held(4, 5, name="points") == (1, 6, 16)


def test_keys_are_kept_where_a_block_has_all_their_channels() -> None:
    from sapa.backends.triton.fit import Work, meta_of
    from sapa.backends.triton.table import TILES

    def held(S: int, D: int, **options: Any) -> tuple[Any, ...]:
        meta = meta_of(TILES["points"][0], kernel_of("points"), Work(sizes_at(S), 256, D, **options), NVIDIA)
        return meta["M"], meta["BD"], meta["IS_SHALLOW"], 32 * meta["num_warps"]

    assert [held(S, 32) for S in (2, 4, 8, 16)] == [
        *((8, 32, True, 32), (16, 32, True, 64), (64, 32, True, 128), (256, 32, True, 512)),
    ]
    # or else a single cell takes fewer channels at a time, and of each thread less
    assert [held(S, 33) for S in (2, 4, 8, 16)] == [
        *((8, 32, False, 32), (16, 16, False, 64), (64, 16, False, 256), (128, 16, False, 512)),
    ]
    # and so does one with a bias
    assert held(8, 32, has_bias=True) == (64, 16, False, 256)
    assert held(2, 16, itemsize=8) == (8, 16, True, 64)
    assert held(2, 32, itemsize=8) == (8, 16, False, 64)


def test_no_thread_holds_more_of_a_window_than_there_is_shared_memory_for() -> None:
    """Of single cells of few points, whose few threads would have many sums of channels; and of few cells."""
    from sapa.backends.triton.fit import Work, meta_of
    from sapa.backends.triton.table import TILES

    tile, kernel = TILES["attend"][0], kernel_of("attend")
    many = (64, 64)
    calls = [((3, 5), 2, many), ((5, 5), 2, (4096, 1)), ((5, 5), 4, many), ((5, 5), 8, many), ((3, 3), 4, many)]
    found = [meta_of(tile, kernel, Work(sizes_at(S, low, K), 256, 32), NVIDIA) for K, S, low in calls]
    held = [(meta["N"], meta["M"], 32 * meta["num_warps"], meta["BC"]) for meta in found]
    assert held == [(1, 4, 32, 32), (1, 4, 32, 16), (1, 16, 64, 32), (1, 64, 256, 64), (1, 16, 32, 32)]
    one = meta_of(tile, kernel, Work(sizes_at(1, (1, 1)), 2048, 32), NVIDIA)
    assert (one["BC"], one["cutting"]) == (16, 128)


def test_large_cells_take_more_of_the_embedding() -> None:
    """But where all threads are in one program, and would have no key each."""
    from sapa.backends.triton.fit import Work, meta_of
    from sapa.backends.triton.table import TILES

    tile, kernel = TILES["attend"][0], kernel_of("attend")
    found = [meta_of(tile, kernel, Work(sizes_at(S), 256, 64), NVIDIA) for S in (4, 8, 11, 16)]
    assert [(meta["BD"], 32 * meta["num_warps"]) for meta in found] == [(16, 64), (32, 256), (32, 512), (16, 1024)]


def test_low_res_points_are_gathered_in_strips() -> None:
    from sapa.backends.triton.fit import Work, meta_of
    from sapa.backends.triton.table import TILES

    ((tile,), work) = TILES["scatter"], Work(sizes_at(2, (512, 64)), 256, owns="cells")
    kernel = kernel_of("scatter")
    usual = {"M": 16, "N": 4, "BC": 128, "num_warps": 2, "num_stages": 1, "maxnreg": 128, "enable_fp_fusion": True}
    assert meta_of(tile, kernel, work, NVIDIA) == usual
    assert meta_of(tile, kernel, replace(work, C=32), NVIDIA) == usual | {"BC": 32}
    assert meta_of(tile, kernel, replace(work, itemsize=8), NVIDIA) == usual | {"BC": 64}
    assert meta_of(tile, kernel, replace(work, sizes=sizes_at(2, (4096, 1))), NVIDIA) == usual | {"N": 1}
    # few strips are shared by blocks of fewer channels
    assert meta_of(tile, kernel, replace(work, sizes=sizes_at(2, (16, 64))), NVIDIA) == usual | {"BC": 64}
    assert meta_of(tile, kernel, replace(work, sizes=sizes_at(2, (8, 8))), NVIDIA) == usual | {"BC": 16}
    assert meta_of(tile, kernel, replace(work, sizes=sizes_at(2, (8, 8)), times=64), NVIDIA) == usual


def test_a_large_cell_takes_more_threads_and_stays_whole() -> None:
    from sapa.backends.triton.fit import Work, meta_of
    from sapa.backends.triton.table import TILES

    def held(S: int, name: str = "attend", K: int = 5) -> tuple[int, ...]:
        meta = meta_of(TILES[name][0], kernel_of(name), Work(sizes_at(S, K=(K, K)), 256, 32), NVIDIA)
        return meta["N"], meta["M"], meta["T"], 32 * meta["num_warps"]

    assert held(2) == (2, 8, 32, 32)
    assert held(4) == (1, 16, 32, 64)
    assert held(8) == (1, 64, 32, 256)
    assert held(16) == (1, 256, 32, 1024)
    assert held(32) == (1, 256, 32, 1024)
    # twice the registers for each thread of a backward kernel leave half as many threads
    assert held(8, "points") == (1, 64, 32, 128)
    assert held(16, "points") == held(32, "points") == (1, 256, 32, 512)
    # a larger window: more threads, then fewer points
    assert held(2, K=9) == (2, 8, 128, 128)
    assert held(2, K=21) == (2, 8, 512, 512)
    assert held(8, K=21) == (1, 16, 512, 1024)
    assert held(2, K=63) == (1, 2, 4096, 1024)


@pytest.mark.parametrize("K", [1, 2, 3, 5, 7, 9, 13])
def test_a_strip_is_as_long_as_its_window_has_room(K: int) -> None:
    """Of all that fit no window is larger to a power of two, but where cells have too few points."""
    from sapa.backends.triton.fit import Work, strip

    smallest = max(16, 1 << (K * K - 1).bit_length())
    for S, low_w, least in product((1, 2, 3, 4, 8), (1, 2, 3, 64), (4, 16)):
        N, T = strip(Work(sizes_at(S, (64, low_w), (K, K)), 256, 32), least)
        points, fitting = S * S * N, S * S * max(1, smallest // K - K + 1)
        assert K * (N + K - 1) <= T
        assert [n.bit_count() for n in (N, T)] == [1, 1]
        assert low_w > N // 2
        assert smallest == T or fitting < 2 * least
        assert points >= least or low_w <= N
        # no longer than it has to be
        assert N == 1 or points < 4 * least


@pytest.mark.parametrize("name", ["attend", "assemble", "points", "assemble_weights"])
def test_programs_in_every_call(name: str) -> None:
    """Whole cells up to 256 points, for a window of 5 x 5 and keys that are kept; all points, and all channels."""
    from sapa.backends.triton.fit import ENOUGH, Work, meta_of
    from sapa.backends.triton.plan import programs_of
    from sapa.backends.triton.table import BACKWARD, TILES

    kernel, depths = kernel_of(name), (None,) if name.startswith("assemble") else (4, 32, 512)
    scales = (1, 1.5, 2, 3, 5, 8, 11, 13, 16, 20, 64)
    for tile, S, K, C, D in product(TILES[name], scales, (1, 5, 7, 31), (1, 100, 256), depths):
        for has_bias, itemsize, times in product((False, True), (2, 4, 8), (1, 64)):
            H = int(S * 64)
            work = Work((H, H, 64, 64, K, K), C, D, "points", itemsize, has_bias, times)
            meta = meta_of(tile, kernel, work, NVIDIA)
            threads, is_special = 32 * meta["num_warps"], int(S) != S or has_bias
            assert threads * tile.registers <= 65536
            assert K * meta["COLUMNS"] <= meta["T"]
            parts = -(-work.points(meta["N"]) // meta["M"])
            is_small = itemsize == 8 or (tile.registers == BACKWARD and (is_special or (D or 0) > 32))
            most = 64 if is_small else 256
            if K <= 5 and most >= S * S:
                assert parts == 1, work
            blocks, strips = -(-C // meta["BC"]), times * 64 * -(-64 // meta["N"])
            cutting = meta.get("cutting", 1)
            assert 1 <= cutting <= blocks
            # one program fewer for each strip would not be enough
            assert cutting == 1 or strips * parts * (cutting - 1) * threads < ENOUGH, work
            assert programs_of(name, work, meta) == (strips * parts * cutting,)


def test_few_cells_are_shared() -> None:
    """1 x 1 to 64 x 64, as after a global mean: a GPU has more to do than one program."""
    from sapa.backends.triton.fit import Work, meta_of
    from sapa.backends.triton.plan import programs_of
    from sapa.backends.triton.table import TILES

    work, tile = Work(sizes_at(64, (1, 1)), 256, 32), TILES["attend"][0]
    meta = meta_of(tile, kernel_of("attend"), work, NVIDIA)
    assert (meta["M"], meta["cutting"], *programs_of("attend", work, meta)) == (256, 4, 16 * 4)
    work = replace(work, times=16)
    meta = meta_of(tile, kernel_of("attend"), work, NVIDIA)
    assert (meta["cutting"], *programs_of("attend", work, meta)) == (1, 16 * 16)


@pytest.mark.parametrize(
    ("size", "expected"), [((4, 6), (2, 2)), ((16, 24), (8, 8)), ((6, 9), (3, 3)), ((4, 7), (0, 0)), ((5, 6), (0, 0))]
)
def test_steps_are_those_of_whole_ratios(size: tuple[int, int], expected: tuple[int, int]) -> None:
    from sapa.backends.triton.fit import steps

    assert steps((*size, 2, 3, 5, 5)) == expected
