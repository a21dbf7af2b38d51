"""How calls of the Triton backend are planned, and which tile they take; without a GPU."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

triton = pytest.importorskip("triton", reason="needs triton, which comes with PyTorch for Linux")

CANDIDATES = [{"N": 8, "U": 4, "BC": 64, "num_warps": 4}, {"N": 4, "U": 4, "BC": 128, "num_warps": 8}]


class Kernel:
    """Notes N, BC and U of its launches; as a tuner, that it was asked. The first tiles that it compiles spill."""

    arg_names = ("C", "D", "sizes")
    best_config = triton.Config({"N": 4, "U": 4, "BC": 128}, num_warps=8)
    n_spills = 0

    def __init__(self, spilling: int = 0, error: Exception | None = None) -> None:
        self.launched: list[tuple[int, int, int] | str] = []
        self.compiled: list[tuple[int, int, int]] = []
        self.spilling, self.error = spilling, error

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        return lambda N=0, BC=0, U=0, **arguments: self.launched.append((N, BC, U) if N else "tuned")

    def run(self, grid: Any, warmup: bool, N: int, BC: int, U: int, **arguments: Any) -> "Kernel":
        self.compiled.append((N, BC, U))
        spills = len(self.compiled) <= self.spilling
        if spills and self.error is not None:
            raise self.error
        compiled = Kernel()
        compiled.n_spills = int(spills)
        return compiled


def plan(candidates: list[dict[str, int]] = CANDIDATES) -> Any:
    from sapa.backends.triton.plan import Plan

    return Plan(candidates, {}, lambda meta: (1,))


def test_tuning_is_asked_for_and_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    from sapa.backends.triton import choice
    from sapa.backends.triton.launch import run

    kernel, tuner, is_capturing = Kernel(), Kernel(), [False]
    monkeypatch.setattr(choice, "_tuner", lambda kernel, choices: tuner)
    monkeypatch.setattr(choice, "is_capturing", lambda: is_capturing[0])

    def launched(plan: Any) -> list[tuple[int, int, int] | str]:
        kernel.launched = tuner.launched = []
        run(kernel, plan, {"q": torch.empty(1)})
        return kernel.launched

    monkeypatch.delenv("SAPA_TUNE", raising=False)
    assert launched(plan()) == [(8, 64, 4)]
    monkeypatch.setenv("SAPA_TUNE", "1")
    assert launched(plan(CANDIDATES[:1])) == [(8, 64, 4)]
    # nothing is measured while a graph is captured
    is_capturing[0] = True
    tuned, other = plan(), plan()
    assert launched(tuned) == [(8, 64, 4)]
    is_capturing[0] = False
    assert launched(tuned) == ["tuned", (4, 128, 4)]
    assert launched(tuned) == [(4, 128, 4)]
    is_capturing[0] = True
    assert launched(tuned) == [(4, 128, 4)]
    assert launched(other) == [(8, 64, 4)]


LADDER = [(8, 64, 4), (4, 64, 4), (2, 64, 4), (1, 64, 4), (1, 32, 4), (1, 16, 4), (1, 16, 2), (1, 16, 1)]


@pytest.mark.parametrize("spilling", range(len(LADDER) + 1))
@pytest.mark.parametrize(
    "error", [None, triton.OutOfResources(1, 0, "threads"), triton.runtime.errors.PTXASError("register allocation")]
)
def test_a_tile_that_spills_is_cut_once(spilling: int, error: Exception | None) -> None:
    """Cells stay whole as long as they can; where everything spills, the smallest tile is launched all the same."""
    from sapa.backends.triton.launch import run

    kernel, one = Kernel(spilling, error), plan()
    for _ in range(2):
        run(kernel, one, {})
    tried = LADDER[: spilling + 1]
    assert kernel.compiled == tried
    assert kernel.launched == [tried[-1], tried[-1]]


def test_a_block_of_all_channels_keeps_them() -> None:
    from sapa.backends.triton.choice import smaller

    whole = {"N": 2, "U": 2, "BC": 64, "ONE_C": True}
    assert [meta["BC"] for meta in smaller(whole)] == [64, 64, 64]
    assert [meta["BC"] for meta in smaller(whole | {"ONE_C": False})] == [64, 64, 32, 16, 16]
    assert [meta["BC"] for meta in smaller(whole | {"ONE_C": False, "BC": 8})] == [8, 8, 8]


def test_calls_that_look_alike_are_planned_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from sapa.backends.triton import launch, operators

    plans, targets, target = {}, [], triton.backends.compiler.GPUTarget("cuda", 90, 32)
    monkeypatch.setattr(launch, "_plans", plans)
    monkeypatch.setattr(launch, "run", lambda kernel, plan, arguments: None)
    monkeypatch.setattr(launch, "current_target", lambda: targets.append(target) or target)

    def planned(dtype: torch.dtype = torch.float32, normalize: str = "softmax", skip: int = 0, W: int = 8) -> int:
        low = torch.empty(2 * 16 * 4 * W // 2 + skip, dtype=dtype)[skip:].view(2, 16, 4, W // 2)
        before = len(targets)
        operators.attend(torch.empty(2, 16, 8, W, dtype=dtype), low, low, None, (3, 3), normalize, "zero")
        return len(targets) - before

    assert [planned(), planned()] == [1, 0]
    # another shape, type, function, address that 16 does not divide
    assert [planned(W=16), planned(dtype=torch.float16), planned(normalize="relu"), planned(skip=1)] == [1, 1, 1, 1]
    assert planned() == 0
    monkeypatch.setattr(launch, "CAPACITY", len(plans))
    assert [planned(W=32), planned(W=32), planned()] == [1, 0, 1]
    assert len(plans) == launch.CAPACITY


def test_tiles_compete_by_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    from sapa.backends.triton import choice
    from sapa.backends.triton.forward import attend_kernel

    asked = []

    def autotune(configs, key, cache_results):
        asked.append((configs, key, cache_results))
        return lambda kernel: ("tuned", kernel)

    monkeypatch.setattr(triton, "autotune", autotune)
    choices = tuple(tuple(meta.items()) for meta in CANDIDATES)
    choice._tuner.cache_clear()
    try:
        assert [choice._tuner(attend_kernel, choices) for _ in range(2)] == 2 * [("tuned", attend_kernel)]
    finally:
        choice._tuner.cache_clear()
    ((configs, key, cache_results),) = asked
    assert [(config.kwargs, config.num_warps) for config in configs] == [
        ({"N": 8, "U": 4, "BC": 64}, 4),
        ({"N": 4, "U": 4, "BC": 128}, 8),
    ]
    assert key == ["C", "D", "sizes"]
    assert cache_results
