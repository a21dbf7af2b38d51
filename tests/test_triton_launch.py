"""How calls of the Triton backend are planned, and which tile they take; without a GPU."""

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest
import torch

triton = pytest.importorskip("triton", reason="needs triton, which comes with PyTorch for Linux")

CANDIDATES = [{"M": 4, "T": 16, "BC": 64, "num_warps": 4}, {"M": 8, "T": 16, "BC": 32, "num_warps": 8}]


@dataclass(eq=False)
class Compiled:
    n_spills: int
    run: object = None


class Kernel:
    """Notes M, BC and warps of its launches; as a tuner, that it was asked. The first tiles that it compiles spill."""

    arg_names = ("C", "D", "sizes")
    best_config = triton.Config({"M": 8, "T": 16, "BC": 32}, num_warps=8)

    def __init__(self, spills: Sequence[int] = (), error: Exception | None = None) -> None:
        self.launched: list[tuple[int, int, int] | str] = []
        self.compiled: list[tuple[int, int, int]] = []
        self.spills, self.error = iter(spills), error

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        def launch(M: int = 0, BC: int = 0, num_warps: int = 0, **arguments: Any) -> None:
            self.launched.append((M, BC, num_warps) if M else "tuned")

        return launch

    def run(self, grid: Any, warmup: bool, M: int, BC: int, num_warps: int, **arguments: Any) -> "Compiled":
        self.compiled.append((M, BC, num_warps))
        spilled = next(self.spills, 0)
        if spilled and self.error is not None:
            raise self.error
        return Compiled(spilled)


def plan(candidates: list[dict[str, int]] = CANDIDATES) -> Any:
    from sapa.backends.triton.plan import Plan

    return Plan(candidates, {}, lambda meta: (1,))


def test_tuning_is_asked_for_and_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    from sapa.backends.triton import choice
    from sapa.backends.triton.launch import run

    kernel, tuner, is_capturing = Kernel(), Kernel(), [False]
    monkeypatch.setattr(choice, "_tuner", lambda kernel, choices, device: tuner)
    monkeypatch.setattr(choice, "_tuned", {})
    monkeypatch.setattr(choice, "is_capturing", lambda: is_capturing[0])

    def launched(plan: Any, C: int = 64) -> list[tuple[int, int, int] | str]:
        kernel.launched = tuner.launched = []
        run(kernel, plan, {"q": torch.empty(1), "C": C, "D": 32, "sizes": (4, 4, 2, 2, 5, 5)})
        return kernel.launched

    first, best = (4, 64, 4), (8, 32, 8)
    monkeypatch.delenv("SAPA_TUNE", raising=False)
    assert launched(plan()) == [first]
    monkeypatch.setenv("SAPA_TUNE", "1")
    assert launched(plan(CANDIDATES[:1])) == [first]
    # nothing is measured while a graph is captured
    is_capturing[0] = True
    one = plan()
    assert launched(one) == [first]
    is_capturing[0] = False
    assert launched(one) == ["tuned", best]
    assert launched(one) == [best]
    is_capturing[0] = True
    assert launched(one) == [best]
    # another batch of maps of this shape has a plan of its own, and takes what was found for them; another shape cannot
    assert launched(plan()) == [best]
    assert launched(plan(), C=65) == [first]


TILES = [(4, 64, 4), (8, 32, 8)]
LADDER = [*TILES, (4, 32, 4), (4, 64, 8), (4, 32, 8), (4, 16, 8), (2, 16, 8), (1, 16, 8)]


@pytest.mark.parametrize("spilling", range(len(LADDER)))
@pytest.mark.parametrize(
    "error",
    [
        None,
        triton.runtime.errors.PTXASError("register allocation failed"),
        triton.OutOfResources(2, 1, "shared memory"),
    ],
)
def test_a_tile_that_spills_is_cut_once(spilling: int, error: Exception | None) -> None:
    """If none of the table fits: half the channels, or more threads, then both; points stay together if they can."""
    from sapa.backends.triton.launch import run

    kernel, one = Kernel([1] * spilling, error), plan()
    for _ in range(2):
        run(kernel, one, {})
    tried = LADDER[: spilling + 1]
    assert kernel.compiled == tried
    assert kernel.launched == [tried[-1], tried[-1]]


@pytest.mark.parametrize(("spills", "chosen"), [([9, 9, 9, 3, 9, 3, 9, 9], 3), ([9] * len(LADDER), 0)])
def test_where_every_tile_spills_it_is_the_one_that_does_least(spills: list[int], chosen: int) -> None:
    from sapa.backends.triton.launch import run

    kernel = Kernel(spills)
    run(kernel, plan(), {})
    assert kernel.compiled == LADDER
    assert kernel.launched == [LADDER[chosen]]


def cut(**meta: Any) -> list[dict[str, Any]]:
    """What is different in each tile from the one before it."""
    from sapa.backends.triton.choice import smaller

    tiles = pairwise([meta, *smaller(meta)])
    return [{k: after.get(k) for k in before if after.get(k) != before[k]} for before, after in tiles]


def test_a_tile_gives_up_no_more_than_it_has() -> None:
    """Threads as many as a multiprocessor has registers for, products of 16 numbers at least."""
    most = [{"BC": 32}, {"BC": 64, "num_warps": 4}, {"BC": 32}, {"BC": 16}, {"M": 2}, {"M": 1}]
    assert cut(M=4, T=16, BC=64, num_warps=2) == most
    least = {"M": 1, "T": 16, "BC": 16}
    # and at last, all registers that a thread can have
    free = {"maxnreg": None}
    assert cut(**least, num_warps=8, maxnreg=128) == [{"num_warps": 16}, free]
    assert cut(**least, num_warps=16, maxnreg=128) == [free]
    assert cut(**least, num_warps=16, maxnreg=64) == [{"num_warps": 32}, free]
    # of 1536 threads, with more registers for each, half are no two blocks of 512
    assert cut(**least, num_warps=8, maxnreg=80) == [{"num_warps": 16, "maxnreg": 64}, free]
    assert cut(**least, num_warps=4, maxnreg=168) == [{"num_warps": 8, "maxnreg": 128}, free]
    # a compute unit of AMD has four SIMDs, each with registers for so many waves
    assert cut(**least, num_warps=8, waves_per_eu=2) == []
    assert cut(**least, num_warps=8, waves_per_eu=4) == [{"num_warps": 16}]
    # what is summed over high-res points has as many of them as before
    gathered = cut(M=16, N=4, BC=32, num_warps=2)
    assert gathered == [{"num_warps": 4}, {"BC": 16}, {"N": 2}, {"N": 1}]


def test_keys_that_are_kept_are_given_up_last_of_all_channels() -> None:
    deep = {"M": 1, "T": 16, "BC": 64, "BD": 64, "num_warps": 16}
    assert cut(**deep) == [{"BC": 32}, {"BD": 32}, {"BD": 16}, {"BC": 16}]
    kept = cut(**deep | {"BD": 32}, IS_SHALLOW=True)
    assert kept == [{"BC": 32}, {"BC": 16}, {"BD": 16, "IS_SHALLOW": False}]


def test_threads_tune_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tuner of Triton keeps the arguments of its call in itself."""
    from sapa.backends.triton import choice

    class Tuner(Kernel):
        is_busy = False

        def __getitem__(self, grid: Any) -> Callable[..., None]:
            def measure(**arguments: Any) -> None:
                assert not self.is_busy
                self.is_busy = True
                time.sleep(0.01)
                self.is_busy = False
                self.launched.append("tuned")

            return measure

    tuner, kernel = Tuner(), Kernel()
    monkeypatch.setenv("SAPA_TUNE", "1")
    monkeypatch.setattr(choice, "_tuner", lambda kernel, choices, device: tuner)
    monkeypatch.setattr(choice, "_tuned", {})
    monkeypatch.setattr(choice, "is_capturing", lambda: False)

    def choose(C: int) -> Any:
        return choice.choose(kernel, plan(), {"q": torch.empty(1), "C": C, "D": 32, "sizes": (4, 4, 2, 2, 5, 5)})

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(choose, [64, 65] * 8))
    assert all(meta["M"] == 8 for meta in found)
    assert tuner.launched == ["tuned"] * 2


@pytest.mark.parametrize(
    ("spills", "compete"), [([0, 0], TILES), ([9, 0], TILES[1:]), ([0, 9], TILES[:1]), ([9, 9, 9, 0], [(4, 64, 8)])]
)
def test_tiles_that_compete_do_not_spill(
    spills: list[int], compete: list[tuple[int, int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    from sapa.backends.triton import choice

    asked: list[Any] = []
    monkeypatch.setenv("SAPA_TUNE", "1")
    monkeypatch.setattr(choice, "_tuner", lambda kernel, choices, device: asked.extend(choices) or Kernel())
    monkeypatch.setattr(choice, "_tuned", {})
    monkeypatch.setattr(choice, "is_capturing", lambda: False)
    arguments = {"q": torch.empty(1), "C": 64, "D": 32, "sizes": (4, 4, 2, 2, 5, 5)}
    choice.choose(Kernel(spills=spills), plan(), arguments)
    assert [tuple(dict(one)[key] for key in ("M", "BC", "num_warps")) for one in asked] == compete


def test_a_recording_that_cannot_load_a_kernel_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    from sapa.backends.triton import choice

    def load(compiled: object) -> int:
        raise RuntimeError("Triton Error [CUDA]: operation not permitted when stream is capturing")

    monkeypatch.delenv("SAPA_TUNE", raising=False)
    monkeypatch.setattr(choice, "spills", load)
    one = plan()
    for is_capturing, message in ((True, "before the recording, make the same call once"), (False, "Triton Error")):
        monkeypatch.setattr(choice, "is_capturing", lambda answer=is_capturing: answer)
        with pytest.raises(RuntimeError, match=message):
            choice.choose(Kernel(), one, {})
    # what cannot be compiled is told as it is
    monkeypatch.setattr(choice, "is_capturing", lambda: True)
    with pytest.raises(triton.CompilationError, match="not defined"):
        choice.choose(Kernel([1], triton.CompilationError("", None, "q is not defined")), one, {})
    monkeypatch.setattr(choice, "spills", lambda compiled: 0)
    assert choice.choose(Kernel(), one, {}) == CANDIDATES[0]


@pytest.mark.parametrize("kind", ["cuda", "xpu"])
def test_graphs_are_seen_on_every_device(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from sapa.backends.triton.choice import is_capturing

    assert not is_capturing()
    module = torch.get_device_module(kind)
    monkeypatch.setattr(module, "is_available", lambda: True)
    monkeypatch.setattr(module, "is_current_stream_capturing", lambda: True, raising=False)
    assert is_capturing()
    monkeypatch.setattr(module, "is_current_stream_capturing", lambda: False)
    assert not is_capturing()


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
    monkeypatch.setenv("SAPA_TUNE", "1")
    assert [planned(), planned()] == [1, 0]
    monkeypatch.delenv("SAPA_TUNE")
    # on AMD, the compiler also asks whether what is behind an address has less than 2 GiB
    monkeypatch.setattr(torch.version, "hip", "6.4")
    assert [planned(), planned()] == [1, 0]
    monkeypatch.setattr(torch.version, "hip", None)
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
    options = {"num_stages": 1, "maxnreg": 64, "enable_fp_fusion": True}
    choices = tuple(tuple((meta | options).items()) for meta in CANDIDATES)
    choice._tuner.cache_clear()
    try:
        devices = [torch.device(name) for name in ("cuda:0", "cuda:0", "cuda:1")]
        assert [choice._tuner(attend_kernel, choices, one) for one in devices] == 3 * [("tuned", attend_kernel)]
    finally:
        choice._tuner.cache_clear()
    (configs, key, cache_results), _ = asked
    # all of it reaches the compiler
    assert [config.all_kwargs() for config in configs] == [meta | options | {"num_ctas": 1} for meta in CANDIDATES]
    assert key == ["C", "D", "sizes"]
    assert cache_results


def test_a_plan_is_forgotten_while_another_thread_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    from sapa.backends.triton import launch, operators

    class Busy(dict[object, Any]):
        """As if a thread added something whenever another is about to read it."""

        def __iter__(self) -> Iterator[object]:
            found = super().__iter__()
            self[object()] = None
            return found

    plans = Busy()
    monkeypatch.setattr(launch, "_plans", plans)
    monkeypatch.setattr(launch, "CAPACITY", 1)
    monkeypatch.setattr(launch, "run", lambda kernel, plan, arguments: None)
    monkeypatch.setattr(launch, "current_target", lambda: triton.backends.compiler.GPUTarget("cuda", 90, 32))
    for w in (2, 3):
        low, high = torch.empty(1, 2, 2, w), torch.empty(1, 2, 4, 2 * w)
        operators.attend(high, low, low, None, (3, 3), "softmax", "zero")
    assert len(plans) == 1


def test_threads_choose_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that another thread is about to load has no number of spills yet."""
    from sapa.backends.triton import choice

    kernel, one, loading = Kernel(), plan(), []

    def spills(compiled: object) -> int:
        assert not loading
        loading.append(compiled)
        time.sleep(0.01)
        loading.clear()
        return 0

    monkeypatch.delenv("SAPA_TUNE", raising=False)
    monkeypatch.setattr(choice, "spills", spills)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: choice.choose(kernel, one, {}), range(8)))
    assert found == [CANDIDATES[0]] * 8
    assert kernel.compiled == LADDER[:1]
