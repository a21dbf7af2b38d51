"""The backends, and which one runs.

A backend is a module with `attend`, `assemble`, `project`, the `_backward` of each (signatures as in `reference.py`)
and `why_not(device)`. To add one, write the file and give it a line in `BACKENDS`, before the backends it should be
preferred to.
"""

import sys
from importlib import import_module
from types import ModuleType

import torch

from sapa.checks import suggest

BACKENDS = {
    "cpu": "sapa.backends.cpu",
    "triton": "sapa.backends.triton",
    "reference": "sapa.backends.reference",
}

_forced: str | None = None


class use_backend:
    """Run every operator on one backend, from now on or inside a `with` block; `None` chooses automatically.

    The setting is one for the whole process. "reference" bypasses the registered operators: ordinary PyTorch with
    ordinary autograd, for second derivatives, for tracing, and for checking the other backends.

    >>> with sapa.use_backend("reference"):
    ...     y = sapa.attend(q, k, v)
    """

    def __init__(self, name: str | None) -> None:
        global _forced
        if name is not None and name not in BACKENDS:
            raise ValueError(f"use_backend: no backend {name!r}.{suggest(name, BACKENDS)}")
        self._name = name
        self._before = [_forced]
        _forced = name

    def __enter__(self) -> None:
        global _forced
        if not self._before:
            self._before.append(_forced)
            _forced = self._name

    def __exit__(self, *_: object) -> None:
        global _forced
        _forced = self._before.pop()


def forced() -> str | None:
    """The name given to `use_backend`."""
    return _forced


def choose(function: str, device: torch.device) -> ModuleType:
    """The forced backend, or the first of `BACKENDS` that can run on this device."""
    for name in BACKENDS if _forced is None else (_forced,):
        backend = sys.modules.get(BACKENDS[name]) or import_module(BACKENDS[name])
        if backend.why_not(device) is None:
            return backend
    reasons = " · ".join(f"{name}: {reason}" for name, reason in status(device).items())
    raise RuntimeError(f"backend {_forced!r} cannot run {function} on {device}: {reasons}")


def status(device: torch.device | str | None = None) -> dict[str, str]:
    """For each backend "ready", or the reason why it cannot run: on this device, or on this machine at all."""
    where = None if device is None else torch.device(device)
    return {name: import_module(path).why_not(where) or "ready" for name, path in BACKENDS.items()}
