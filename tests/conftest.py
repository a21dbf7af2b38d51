"""Every test runs seeded, with uninitialised memory poisoned, and once on each backend where it asks for `backend`."""

from collections.abc import Iterator

import pytest
import torch
from hypothesis import HealthCheck, settings

import sapa

settings.register_profile(
    "sapa", deadline=None, derandomize=True, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
settings.load_profile("sapa")


@pytest.fixture(autouse=True)
def seeded_and_poisoned() -> Iterator[None]:
    """Deterministic mode fills what torch.empty returns with NaN."""
    torch.manual_seed(0)
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.fixture(params=list(sapa.BACKENDS))
def backend(request: pytest.FixtureRequest) -> Iterator[str]:
    """The operators run on this backend. "reference" bypasses them; `operators` covers its written backward."""
    reason = sapa.status("cpu")[request.param]
    if reason != "ready":
        pytest.skip(f"{request.param}: {reason}")
    with sapa.use_backend(request.param):
        yield request.param


@pytest.fixture(params=list(sapa.UPSAMPLERS))
def upsampler(request: pytest.FixtureRequest) -> str:
    return request.param
