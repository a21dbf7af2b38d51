"""Every test runs seeded, with uninitialised memory poisoned, and once on each backend where it asks for `backend`."""

import os
from collections.abc import Iterator

import pytest
import torch
from hypothesis import HealthCheck, settings

import sapa
from sapa import backends, shortcut

# test_triton.py starts such a process; there a call takes a tenth of a second, and hundreds of them are too many
IS_INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
IS_WHOLE = os.environ.get("SAPA_WHOLE") == "1"

settings.register_profile(
    "sapa",
    deadline=None,
    derandomize=True,
    max_examples=2 if IS_INTERPRETED else 40,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
settings.load_profile("sapa")

if IS_INTERPRETED:
    from triton.runtime import interpreter

    # it would do every sum of integers twice, to see whether 32 bits are enough
    interpreter.interpreter_builder.options = interpreter.InterpreterOptions(sanitize_overflow=False)

if "PYTEST_XDIST_WORKER" in os.environ:
    # the workers share the cores: with more threads than cores, threads wait for each other; so for what they start
    torch.set_num_threads(1)
    os.environ["OMP_NUM_THREADS"] = "1"


@pytest.fixture(autouse=True)
def seeded_and_poisoned() -> Iterator[None]:
    """Deterministic mode fills what torch.empty returns with NaN."""
    torch.manual_seed(0)
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


# those that can run here; test_triton.py lets triton
BACKENDS = [name for name in sapa.BACKENDS if name != "triton" or IS_INTERPRETED]


@pytest.fixture(params=["plain", *BACKENDS])
def backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Run the operators on one backend alone, and as "plain" PyTorch, which is the reference without its backward."""
    name = request.param
    if name == "plain":
        with sapa.use_backend("reference"):
            yield name
    else:
        reason = sapa.status("cpu")[name]
        if reason != "ready":
            pytest.skip(f"{name}: {reason}")
        if IS_INTERPRETED and request.node.name.startswith("test_memory"):
            pytest.skip("the interpreter has its maps in numpy, whose memory is not seen here")
        preferred = {name: sapa.BACKENDS[name], "reference": sapa.BACKENDS["reference"]}
        monkeypatch.setattr(backends, "BACKENDS", preferred)
        monkeypatch.setattr(shortcut, "_known", {})
        yield name


@pytest.fixture(params=list(sapa.UPSAMPLERS))
def upsampler(request: pytest.FixtureRequest) -> str:
    return request.param
