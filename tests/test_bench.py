"""The measurements: fair to the peers, complete, and what docs/performance.md says."""

import json
import re
import sys
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import pytest
import torch

import sapa
from bench import memory, ops, plot, render, report, segformer, targets, upsamplers
from sapa.bench import FORWARD, GPU_FORWARD, GPU_TRAINED, TRAINED, Case, machine, measure, rivals, show
from sapa.bench.peers import shift_loop, unfolded
from sapa.bench.show import number, versus
from sapa.bench.timing import FEWEST, clock_of, interleaved, threads

SMALL = Case((1, 4, 4, 6), embed_dim=3, threads=1)


@pytest.mark.parametrize("function", [unfolded, shift_loop])
@pytest.mark.parametrize("K", [3, 5])
def test_peers_compute_what_attend_computes(function, K: int) -> None:
    inputs = [torch.randn(size, requires_grad=True) for size in ((2, 7, 12, 18), (2, 7, 4, 6), (2, 5, 4, 6))]
    expected, found = sapa.attend(*inputs, kernel_size=K), function(*inputs, kernel_size=K)
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=0)
    g = torch.randn_like(expected)
    gradients = torch.autograd.grad(expected, inputs, g), torch.autograd.grad(found, inputs, g)
    torch.testing.assert_close(*gradients, atol=1e-4, rtol=0)


def valid(times: dict[str, dict[str, float]]) -> bool:
    return all(0 < time["low"] <= time["ms"] <= time["high"] and time["runs"] >= FEWEST for time in times.values())


@pytest.mark.parametrize("layout", ["NCHW", "channels_last"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_case_times_everything(layout: str, dtype: str) -> None:
    with torch.compiler.set_stance("force_eager"):
        result = measure(Case((1, 4, 4, 6), layout, 3, 3, dtype, threads=1), seconds=0.001)
    assert result["left_out"] == {}
    assert tuple(result["times"]) == FORWARD + TRAINED
    assert valid(result["times"])
    assert set(result["compile_seconds"]) == {"shift loop", "shift loop, trained"}
    assert result["gflops"] > 0
    assert result["gemm_gflops"] > 0


def test_a_peer_that_cannot_run_is_left_out_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> torch.Tensor:
        raise RuntimeError("no compiler")

    monkeypatch.setattr("sapa.bench.peers.unfolded", broken)
    result = measure(SMALL, ["attend", "unfold"], seconds=0.001)
    assert result["left_out"] == {"unfold": "RuntimeError: no compiler"}
    assert list(result["times"]) == ["attend"]
    monkeypatch.setattr("sapa.attend", broken)
    with pytest.raises(RuntimeError, match="no compiler"):
        measure(SMALL, ["attend", "unfold"], seconds=0.001)


def test_calls_are_mixed_and_slow_functions_called_less_often() -> None:
    order: list[str] = []

    def function(name: str, size: int):
        def call() -> None:
            order.append(name)
            sum(range(size))

        return call

    ticks: list[float] = []
    times = interleaved({"slow": function("slow", 300_000), "fast": function("fast", 3_000)}, 0.03, ticks.append)
    assert FEWEST <= times["slow"]["runs"] < times["fast"]["runs"]
    middle = [i for i, name in enumerate(order) if name == "slow"][2:-1]
    assert all("fast" in order[a:b] for a, b in pairwise(middle))
    assert ticks == sorted(ticks)
    assert ticks[-1] == 1


class Stream:
    """A device that works behind the back of the processor: a call takes a millisecond by its events."""

    now = 0.0
    waited = 0
    slept = 0

    class Event:
        def __init__(self, enable_timing: bool) -> None:
            assert enable_timing
            self.at = -1.0

        def record(self) -> None:
            self.at = Stream.now

        def synchronize(self) -> None:
            Stream.waited += 1

        def elapsed_time(self, end: "Stream.Event") -> float:
            return end.at - self.at

    @staticmethod
    def _sleep(cycles: int) -> None:
        Stream.slept += 1
        Stream.now += cycles

    @staticmethod
    def is_available() -> bool:
        return False

    @staticmethod
    def get_device_name(device: str) -> str:
        return f"a {device} of glass"


def test_a_gpu_is_timed_by_its_events(monkeypatch: pytest.MonkeyPatch) -> None:
    def call() -> None:
        Stream.now += 1.0

    monkeypatch.setattr(torch, "get_device_module", lambda device: Stream)
    times = interleaved({"call": call}, 0.003, device="cuda")
    assert times["call"] == {"ms": 1, "low": 1, "high": 1, "runs": 3}
    assert Stream.waited == Stream.slept == 3 + 2  # and twice to find out how often
    assert machine("cuda")["processor"] == "a cuda of glass"
    assert machine("cuda")["backends"]["cpu"] == "it runs on cpu, not on cuda"
    assert clock_of("cpu")(lambda: None) >= 0


def test_a_case_of_a_gpu_names_the_extensions_that_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole way of `sapa bench --device cuda` on the processor, with the clock of the processor."""
    monkeypatch.setitem(sys.modules, "mmcv", None)
    names = [name for name in GPU_FORWARD + GPU_TRAINED if not name.startswith("shift loop")]
    result = measure(SMALL, names, seconds=0.001)
    missing = {f"{name}{suffix}" for name in rivals.RIVALS for suffix in ("", ", trained")}
    assert set(result["left_out"]) == missing
    assert result["left_out"]["official extension"] == "ModuleNotFoundError: No module named 'sim_ext'"
    assert set(result["times"]) == set(names) - missing
    assert valid(result["times"])
    shown = show.title(result | {"device": "cuda"})
    assert shown.endswith("K = 5, D = 3, float32, cuda")
    notes = show.notes({"case": result | {"device": "cuda"}, "machine": machine()})
    assert "without the Triton kernels: it runs on cuda and xpu, not on cpu" in notes


def test_the_official_extension_computes_attend_if_it_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """With modules that do what the source of the extension says: maps [B, H, W, C], results written in place."""

    def planar(x: torch.Tensor) -> torch.Tensor:
        return x.permute(0, 3, 1, 2)

    def module(function) -> ModuleType:
        made = ModuleType("extension")

        def forward(high, low, kernel_size, scale, y) -> None:
            assert high.is_contiguous()
            assert low.is_contiguous()
            y.copy_(function(planar(high), planar(low), kernel_size).permute(0, 2, 3, 1))

        def backward(g, high, low, kernel_size, scale, dhigh, dlow) -> None:
            with torch.enable_grad():
                leaves = [x.detach().requires_grad_() for x in (high, low)]
                y = function(*map(planar, leaves), kernel_size).permute(0, 2, 3, 1)
            for result, gradient in zip((dhigh, dlow), torch.autograd.grad(y, leaves, g), strict=True):
                result.copy_(gradient)

        vars(made).update(forward=forward, backward=backward)
        return made

    def scores(q, k, K):
        return sapa.kernels(q, k, kernel_size=K, normalize="none")

    monkeypatch.setitem(sys.modules, "sim_ext", module(scores))
    monkeypatch.setitem(sys.modules, "atn_ext", module(lambda w, v, K: sapa.assemble(v, w, kernel_size=K)))
    inputs = [torch.randn(size, requires_grad=True) for size in ((2, 7, 12, 18), (2, 7, 4, 6), (2, 5, 4, 6))]
    expected, found = sapa.attend(*inputs, kernel_size=3), rivals.official(*inputs, kernel_size=3)
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=0)
    g = torch.randn_like(expected)
    gradients = torch.autograd.grad(expected, inputs, g), torch.autograd.grad(found, inputs, g)
    torch.testing.assert_close(*gradients, atol=1e-4, rtol=0)


def test_carafe_of_mmcv_is_called_as_it_wants(monkeypatch: pytest.MonkeyPatch) -> None:
    ops = ModuleType("mmcv.ops")
    vars(ops).update(carafe=lambda v, w, K, group, scale: (v.shape, w.shape, K, group, scale))
    monkeypatch.setitem(sys.modules, "mmcv", ModuleType("mmcv"))
    monkeypatch.setitem(sys.modules, "mmcv.ops", ops)
    v, w = torch.ones(1, 4, 3, 5), torch.ones(1, 9, 6, 10)
    assert rivals.carafe(v, w, 3) == (v.shape, w.shape, 3, 1, 2)


def test_threads_are_given_back() -> None:
    before = torch.get_num_threads()
    with threads(1):
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == before


def test_flops_of_attend() -> None:
    assert Case().flops() == 2 * 128 * 128 * 25 * (256 + 32)


@pytest.mark.parametrize("quick", [False, True])
def test_the_sweep_covers_what_it_should(quick: bool) -> None:
    cases = ops.base(quick) + ops.variations(quick)
    assert len(set(cases)) == len(cases)
    named = {case: ops.names_of(case, quick) for case in cases}
    assert all({"attend", "bilinear", "gemm", "attend, trained"} <= set(names) for names in named.values())
    assert ("shift loop" in named[ops.MAIN]) is not quick
    if not quick:
        assert set(named[ops.MAIN]) == {*FORWARD, *TRAINED}
        assert {(case.kernel_size, case.embed_dim, case.dtype, case.threads) for case in cases} == {
            *((5, 32, "float32", 2), (5, 64, "float32", 2), (3, 32, "float32", 2), (7, 32, "float32", 2)),
            *((5, 32, "bfloat16", 2), (5, 32, "float32", 1)),
        }


def test_targets_of_a_small_case(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "extra", lambda case: {"attend": 0.01})
    result = targets.measure(SMALL, seconds=0.001)
    assert valid(result["target_times"])
    rows = result["targets"]
    assert len(rows) == 11
    for row in rows:
        assert row["reached"] is (row["value"] >= row["limit"] if row["at_least"] else row["value"] <= row["limit"])
        assert row.get("low", row["value"]) <= row["value"] <= row.get("high", row["value"])
    assert targets.reached({"value": None}) is None


@pytest.mark.skipif(not memory.RESET.exists(), reason="only Linux tells the peak of a process")
def test_memory_of_the_unfold_form_is_seen() -> None:
    case = Case((1, 64, 32, 32), threads=1)
    output = 64 * 64 * 64 * 4
    found = memory.extra(case, ("attend", "unfold"))
    # 25 copies of the map, which is a quarter of the output
    assert found["unfold"] > 6
    assert -0.1 * output < found["attend"] * output < 0.5 * output


def test_upsamplers_are_all_timed() -> None:
    result = upsamplers.run((1, 32, 4, 4), seconds=0.001, quick=True)
    assert list(result["parameters"]) == list(sapa.UPSAMPLERS)
    for times in result["times"].values():
        assert set(times) == {f"{name}{suffix}" for name in sapa.UPSAMPLERS for suffix in ("", ", trained")}
        assert valid(times)
    assert "`bilinear`" in render.upsamplers(json.loads(json.dumps(result)))


def test_a_whole_model_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segformer, "megabytes", lambda function, size: 1.0)  # each in a process of its own
    result = segformer.run(["bilinear", "sapa_b"], size=32, seconds=0.001, quick=True)
    assert list(result["times"]) == ["bilinear", "bilinear, trained", "sapa_b", "sapa_b, trained"]
    assert result["parameters"]["sapa_b"] - result["parameters"]["bilinear"] == 6 * 17_472
    assert "| `bilinear` | 0 |" in render.segformer(json.loads(json.dumps(result)))


def test_committed_results_are_complete() -> None:
    found = {name: report.load(name) for name in ("ops", "upsamplers", "segformer")}
    keys = {"processor", "instructions", "cores", "load", "load_after", "torch", "sapa", "commit", "backends", "python"}
    assert all(keys <= set(result["machine"]) for result in found.values())
    sweep, quick = found["ops"], found["ops"]["quick"]
    for part, plan in (("base", ops.base(quick)), ("variations", ops.variations(quick))):
        for result, case in zip(sweep[part], plan, strict=True):
            # the results on file are from before there was another device
            whole = {"device": "cpu"} | result
            assert {key: whole[key] for key in asdict(case)} == asdict(case) | {"shape": list(case.shape)}
            assert set(result["times"]) | set(result["left_out"]) == set(ops.names_of(case, quick))
            assert valid(result["times"])
    assert len(sweep["targets"]) == 11
    assert set(found["upsamplers"]["parameters"]) <= set(sapa.UPSAMPLERS)


def test_performance_page_is_made_from_the_results() -> None:
    assert render.page() == render.PAGE.read_text()
    assert render.digest() in render.PICTURE.read_text(), "python -m bench.render"


def test_rendering_shows_what_is_slower_and_not_reached() -> None:
    row = {"what": "faster", "limit": 150, "at_least": True, "unit": "x", "value": 100.0, "low": 90.0, "high": 110.0}
    shares = {"what": "memory", "limit": 0.05, "at_least": False, "unit": "%", "value": None, "reached": None}
    text = render.targets({"targets": [row | {"reached": False}, shares], "memory": {}})
    assert "| faster | ≥ 150 x | 100 x (90 x to 110 x) | **no** |" in text
    assert "| memory | ≤ 5 % | not measured |  |" in text
    assert "1 of 2 are not reached." in text
    result = measure(SMALL, ["attend", "bilinear", "gemm", "attend, trained", "bilinear, trained"], seconds=0.001)
    result["times"]["attend"]["ms"] = 3 * result["times"]["bilinear"]["ms"]
    result["times"]["attend, trained"]["ms"] = 2 * result["times"]["bilinear, trained"]["ms"]
    text = render.cases({"base": [result]})
    assert re.search(r"slower than bilinear in 1 of 1 cases, most at .* NCHW: 3 times its time; forward and", text)
    assert "backward in 1, by up to 2 times." in text


def test_picture_is_the_same_each_time_it_is_drawn(tmp_path: Path) -> None:
    result = report.load("ops")
    for name in ("a", "b"):
        plot.draw(result, tmp_path / f"{name}.svg", "digest of the results")
    text = (tmp_path / "a.svg").read_text()
    assert text == (tmp_path / "b.svg").read_text()
    assert "digest of the results" in text


def test_numbers_as_a_reader_takes_them_in() -> None:
    assert [number(x) for x in (0.01234, 1.234, 12.34, 123.4, 1234.5)] == ["0.0123", "1.23", "12.3", "123", "1234"]
    assert (versus(1, 3), versus(3, 1), versus(1, 1)) == ("3x faster", "3x slower", "")
