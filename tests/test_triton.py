"""The Triton backend without a GPU: its numbers in the interpreter, its choice of device, its tiles and tuning."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import sapa
from sapa import backends
from sapa.backends import reference
from sapa.backends import triton as kernels

ROOT = Path(__file__).parents[1]
pytest.importorskip("triton")


@pytest.mark.parametrize(
    ("file", "least"), [("test_triton_kernels.py", 17), ("test_backends.py", 10), ("test_functional.py", 15)]
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
        pytest.skip("there is one")
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


@pytest.mark.parametrize(("capability", "reason"), [((7, 5), "compute capability 7.5"), ((9, 0), None)])
def test_with_a_gpu_it_is_preferred(
    capability: tuple[int, int], reason: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    kernels._too_old.cache_clear()
    try:
        found = kernels.why_not(torch.device("cuda"))
        chosen = backends.choose("attend", torch.device("cuda"))
    finally:
        kernels._too_old.cache_clear()
    assert found is None if reason is None else reason in (found or "")
    assert chosen is (kernels if reason is None else reference)


def test_offsets_grow_to_64_bits_only_where_they_must() -> None:
    from sapa.backends.triton.launch import needs_int64

    sizes = (128, 128, 64, 64, 5, 5)
    dense = torch.empty(4, 2048, 128, 128, device="meta")
    assert not needs_int64([dense], sizes)
    assert needs_int64([dense, torch.empty(1, 2**15 + 1, 256, 256, device="meta")], sizes)
    assert needs_int64([dense], (40_000, 128, 30_000, 64, 5, 5))
    # a gap between the channels counts, one between the samples does not: their place is always of 64 bits
    assert needs_int64([dense.as_strided((1, 2, 2, 2), (1, 2**31, 2, 1))], sizes)
    assert not needs_int64([dense.as_strided((2, 2, 2, 2), (2**31, 4, 2, 1))], sizes)


def test_tiles_are_cut_to_the_problem() -> None:
    from sapa.backends.triton.backward import keys_kernel
    from sapa.backends.triton.forward import assemble_kernel, attend_kernel
    from sapa.backends.triton.launch import meta_of
    from sapa.backends.triton.table import Tile

    tile = Tile(32, 64, 32, 4)
    usual = {"U": 4, "N": 8, "BC": 64, "BD": 32, "ONE_D": True, "num_warps": 4, "maxnreg": 128}
    assert meta_of(tile, attend_kernel, 4, 4096, 256, 32, "nvidia", True) == usual
    # few channels, as of a depth map: the threads take cells instead
    assert meta_of(tile, attend_kernel, 4, 4096, 1, 4, "nvidia", True) == usual | {"N": 64, "BC": 1, "BD": 4}
    # a large scale: the points of a cell are shared out to several programs
    large = {"U": 16, "N": 2, "ONE_D": False, "maxnreg": 255}
    assert meta_of(tile, attend_kernel, 64, 4096, 256, 64, "nvidia", False) == usual | large
    assert meta_of(tile, assemble_kernel, 9, 4, 40, None, "xpu", True) == {"U": 16, "N": 2, "BC": 64, "num_warps": 4}
    assert meta_of(tile, keys_kernel, 1, 9, 64, 33, "amd", False) == {
        **{"U": 1, "N": 16, "BC": 64, "BD": 32, "ONE_C": True, "ONE_D": False, "num_warps": 2}
    }


def test_tuning_is_asked_for_and_chooses_among_the_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    import triton

    from sapa.backends.triton import tune
    from sapa.backends.triton.forward import attend_kernel

    candidates = [{"N": 8, "BC": 64, "num_warps": 4}, {"N": 4, "BC": 128, "num_warps": 8}]
    monkeypatch.delenv("SAPA_TUNE", raising=False)
    assert tune.launcher(attend_kernel, candidates) == (attend_kernel, candidates[0])

    asked = []

    def autotune(configs, key, cache_results):
        asked.append((configs, key, cache_results))
        return lambda kernel: ("tuned", kernel)

    monkeypatch.setenv("SAPA_TUNE", "1")
    monkeypatch.setattr(triton, "autotune", autotune)
    tune._tuner.cache_clear()
    try:
        assert tune.launcher(attend_kernel, candidates) == (("tuned", attend_kernel), {})
        tune.launcher(attend_kernel, candidates)
        assert tune.launcher(attend_kernel, candidates[:1]) == (attend_kernel, candidates[0])
    finally:
        tune._tuner.cache_clear()
    ((configs, key, cache_results),) = asked
    assert [(config.kwargs, config.num_warps) for config in configs] == [
        ({"N": 8, "BC": 64}, 4),
        ({"N": 4, "BC": 128}, 8),
    ]
    assert key == ["C", "D", "sizes"]
    assert cache_results
