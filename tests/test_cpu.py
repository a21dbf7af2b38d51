"""The C++ kernels beyond the contract that test_backends.py holds all backends to."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from oracle import assert_as_good, unfolded
from torch import Tensor

import sapa
from sapa.backends import cpu, reference
from sapa.checks import BORDER, NORMALIZE

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.skipif(cpu.why_not() is not None, reason=f"cpu: {cpu.why_not()}")


def problem(
    layout: torch.memory_format, size: tuple[int, int] = (13, 150), low: tuple[int, int] = (6, 71)
) -> list[Tensor]:
    """A map wider than a strip of cells, of a ratio that is not whole."""
    shapes = ((2, 5, *size), (2, 5, *low), (2, 19, *low), (2, 19, *size))
    return [torch.randn(shape, dtype=torch.float64).contiguous(memory_format=layout) for shape in shapes]


@pytest.mark.parametrize("size", [(13, 150), (12, 142), (24, 284), (6, 71)], ids=str)
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last], ids=str)
@pytest.mark.parametrize("K", [(1, 3), (3, 3), (5, 5), (7, 9)], ids=str)
def test_wide_maps_equal_the_reference(layout: torch.memory_format, size: tuple[int, int], K: tuple[int, int]) -> None:
    q, k, v, g = problem(layout, size)
    bias = (torch.randn(size[0], K[0]).double(), torch.randn(size[1], K[1]).double())
    for normalize, border in zip(NORMALIZE, (*BORDER, *BORDER, "zero"), strict=True):
        window = (bias, K, normalize, border)
        torch.testing.assert_close(cpu.attend(q, k, v, *window), reference.attend(q, k, v, *window))
        ours, expected = (backend.attend_backward(g, q, k, v, *window) for backend in (cpu, reference))
        torch.testing.assert_close(ours, expected)


def equal_for_any_number_of_threads(g: Tensor, q: Tensor, k: Tensor, v: Tensor) -> bool:
    bias = (torch.randn(q.shape[2], 5), torch.randn(q.shape[3], 5))
    before, results = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            window = (bias, (5, 5), "softmax", "zero")
            results.append([cpu.attend(q, k, v, *window), *cpu.attend_backward(g, q, k, v, *window)])
    finally:
        torch.set_num_threads(before)
    return all(torch.equal(a, b) for other in results[1:] for a, b in zip(results[0], other, strict=True))


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last], ids=str)
@pytest.mark.parametrize("batch", [1, 2, 3])
def test_results_do_not_depend_on_the_number_of_threads(layout: torch.memory_format, batch: int) -> None:
    q, k, v, g = (x[:1].repeat(batch, 1, 1, 1).float().contiguous(memory_format=layout) for x in problem(layout))
    assert equal_for_any_number_of_threads(g, q, k, v)


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last], ids=str)
@pytest.mark.parametrize(("scale", "low_h"), [(2, 7), (3, 6), (3, 7), (4, 5), (4, 10)])
def test_nor_do_those_of_cells_with_many_points(layout: torch.memory_format, scale: int, low_h: int) -> None:
    high, low = (scale * low_h, scale * 20), (low_h, 20)
    g, q, k, v = (torch.randn(1, C, *size) for C, size in ((40, high), (8, high), (8, low), (40, low)))
    assert equal_for_any_number_of_threads(*(x.contiguous(memory_format=layout) for x in (g, q, k, v)))


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last], ids=str)
def test_float32_is_as_good_as_plain_pytorch(layout: torch.memory_format) -> None:
    shapes = ((1, 16, 24, 80), (1, 16, 12, 40), (1, 24, 12, 40))
    q, k, v = (torch.randn(shape).contiguous(memory_format=layout) for shape in shapes)
    truth = unfolded(q.double(), k.double(), v.double(), 5)
    assert_as_good(sapa.attend(q, k, v), unfolded(q, k, v, 5), truth)


def run(code: str, **variables: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env={**os.environ, **variables}
    )


def test_memory_of_the_process_does_not_grow_with_window_times_channels() -> None:
    """An unfolded v would take 225 times its 4 MB."""
    code = """
import resource, torch
from sapa.backends import cpu
q, k, v, g = (torch.ones(1, C, n, n) for C, n in ((32, 128), (32, 64), (256, 64), (256, 128)))
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
cpu.attend_backward(g, q, k, v, None, (3, 3), "softmax", "zero")
cpu.attend(q, k, v, None, (3, 3), "softmax", "zero")
before = peak()
cpu.attend(q, k, v, None, (15, 15), "softmax", "zero")
cpu.attend_backward(g, q, k, v, None, (15, 15), "softmax", "zero")
print(peak() - before)
"""
    result = run(code)
    assert int(result.stdout) < 64, result.stderr  # megabytes


def test_the_baseline_instruction_set_gives_the_same() -> None:
    code = """
import torch
from sapa.backends import cpu, reference
assert cpu.load().sapa_isa() == b"baseline"
torch.manual_seed(0)
for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.float16):
    q, k, v, g = (torch.randn(2, c, h, w).to(dtype) for c, h, w in ((5, 9, 90), (5, 4, 40), (7, 4, 40), (7, 9, 90)))
    window = (None, (5, 5), "softmax", "mask")
    torch.testing.assert_close(cpu.attend(q, k, v, *window), reference.attend(q, k, v, *window))
    torch.testing.assert_close(
        cpu.attend_backward(g, q, k, v, *window), reference.attend_backward(g, q, k, v, *window), rtol=2e-2, atol=2e-2
    )
print("equal")
"""
    result = run(code, SAPA_ISA="baseline")
    assert result.stdout == "equal\n", result.stderr


def test_an_unknown_instruction_set_falls_back_and_says_why() -> None:
    code = "import sapa, torch; x = torch.ones(1, 1, 1, 1); print(sapa.status()['cpu'], sapa.attend(x, x, x).item())"
    result = run(code, SAPA_ISA="mmx")
    reason, value = result.stdout.rsplit(maxsplit=1)
    assert reason == "SAPA_ISA names an instruction set that this machine does not have"
    assert float(value) < 1


def test_without_a_compiler_the_package_still_builds(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), str(ROOT)]
    no_compiler = {**os.environ, "CC": "/bin/false", "CXX": "/bin/false"}
    built = subprocess.run(command, capture_output=True, text=True, check=False, env=no_compiler)
    assert built.returncode == 0, built.stdout + built.stderr
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name.endswith("-py3-none-any.whl")


def test_training_with_the_kernels_takes_the_same_path() -> None:
    """A small decoder, 100 steps: the losses are those of the reference."""
    losses = {}
    for backend in ("reference", "cpu"):
        torch.manual_seed(0)
        x, guide = torch.randn(2, 8, 6, 5), torch.randn(2, 4, 12, 10)
        target = torch.randn(2, 3, 12, 10)
        up, head = sapa.SAPA(8, 4, similarity="gated", embed_dim=8), torch.nn.Conv2d(8, 3, 3, padding=1)
        model = torch.nn.ModuleList([up, head]).double()
        optimizer = torch.optim.AdamW(model.parameters(), 0.01)
        losses[backend] = []
        with sapa.use_backend(backend):
            for _ in range(100):
                loss = (head(up(x.double(), guide.double())) - target).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                losses[backend].append(loss.item())
    assert losses["cpu"][-1] < 0.9 * losses["cpu"][0]
    assert losses["cpu"] == pytest.approx(losses["reference"], rel=1e-9)


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last], ids=str)
def test_extra_memory_is_five_percent_of_the_output(layout: torch.memory_format) -> None:
    """Of a process that allocates nothing else: one call with the output in place, two threads."""
    is_last = layout == torch.channels_last
    code = f"""
import resource, torch
from sapa.backends import cpu
torch.set_num_threads(2)
layout = torch.channels_last if {is_last} else torch.contiguous_format
q, k, v, y = (torch.ones(1, C, n, n).to(memory_format=layout) for C, n in ((32, 128), (32, 64), (256, 64), (256, 128)))
small = [x[..., :2, :2] for x in (q, k, v, y)]
small[0], small[3] = q[..., :4, :4], y[..., :4, :4]
cpu._run("sapa_forward", cpu._attend_call(*small, [], (5, 5), "softmax", "zero"))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
cpu._run("sapa_forward", cpu._attend_call(q, k, v, y, [], (5, 5), "softmax", "zero"))
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 / y.nbytes)
"""
    result = run(code, MALLOC_ARENA_MAX="1")
    assert float(result.stdout) < 0.05, result.stderr


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="large pages are asked for on Linux alone")
def test_fresh_memory_of_a_large_output_comes_in_large_pages() -> None:
    """Its mapping, and no other, has the flag of the advice: in a process whose heap has no room for it yet."""
    code = """
from pathlib import Path
import torch
from sapa.backends import cpu
q, k, v = torch.ones(1, 1, 2048, 2048), torch.ones(1, 1, 1024, 1024), torch.ones(1, 4, 1024, 1024)
y = cpu.attend(q, k, v, None, (1, 1), "none", "zero")
at = y.data_ptr() + y.nbytes // 2
for line in Path("/proc/self/smaps").read_text().splitlines():
    head = line.split()[0]
    if "-" in head:
        start, end = (int(address, 16) for address in head.split("-"))
    elif head == "VmFlags:" and start <= at < end:
        print(y.data_ptr() <= start < end <= y.data_ptr() + y.nbytes, "hg" in line.split())
"""
    result = run(code)
    assert result.stdout.split() == ["True", "True"], result.stderr
