"""Random numbers by name, from one generator: the same generator gives the same sample, whatever else runs."""

from collections.abc import Sequence
from typing import TypeVar

import torch

T = TypeVar("T")


class Draw:
    def __init__(self, generator: torch.Generator | None = None) -> None:
        self.generator = generator

    def uniform(self, low: float, high: float) -> float:
        return low + (high - low) * float(torch.rand((), generator=self.generator, dtype=torch.float64))

    def chance(self, share: float) -> bool:
        return self.uniform(0, 1) < share

    def below(self, end: int) -> int:
        """One of 0 ... end - 1."""
        return int(torch.randint(end, (), generator=self.generator))

    def one_of(self, choices: Sequence[T]) -> T:
        return choices[self.below(len(choices))]
