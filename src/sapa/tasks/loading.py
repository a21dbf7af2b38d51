"""Samples in batches. What a step sees follows from its number and the seed alone, on any number of processes."""

import hashlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch.utils.data import DataLoader, Dataset, Sampler

from sapa.tasks.data import BadSample
from sapa.tasks.task import Batch, Sample

Place = tuple[int, int]  # of a sample: the pass over the data, and the index


class Share(NamedTuple):
    """Which part of each batch belongs to this process."""

    rank: int = 0
    processes: int = 1
    parts: int = 1  # of a step, one after the other


class Loaded(NamedTuple):
    batch: Batch
    failures: dict[str, str]  # samples that cannot be read, and why


class Order(Sampler[list[Place]]):
    """Which samples each step takes: one shuffled pass over the data after the other, without a gap between them.

    Args:
        length: of the data.
        batch: samples in a step, over all processes and parts.
        steps: number of the first step and of that after the last.
        seed: of the shuffling.
        share: of this process.
    """

    def __init__(self, length: int, batch: int, steps: tuple[int, int], seed: int, share: Share = Share()) -> None:  # noqa: B008
        pieces = share.processes * share.parts
        if batch % pieces:
            raise ValueError(
                f"a batch of {batch} cannot be split evenly over {share.processes} processes and {share.parts} "
                f"parts; take a batch that {pieces} divides."
            )
        self.length, self.batch, self.steps, self.seed, self.share = length, batch, range(*steps), seed, share

    def __len__(self) -> int:
        return len(self.steps) * self.share.parts

    def __iter__(self) -> Iterator[list[Place]]:
        size = self.batch // (self.share.processes * self.share.parts)
        shuffled, known = torch.empty(0), -1
        for step in self.steps:
            for part in range(self.share.parts):
                first = step * self.batch + (part * self.share.processes + self.share.rank) * size
                places: list[Place] = []
                for place in range(first, first + size):
                    epoch, i = divmod(place, self.length)
                    if epoch != known:
                        shuffled, known = torch.randperm(self.length, generator=generator(self.seed, epoch)), epoch
                    places.append((epoch, int(shuffled[i])))
                yield places


class Reader(Dataset[tuple[Sample | None, dict[str, str]]]):
    """Read and augment samples. In training the next one that can be read stands in for one that cannot."""

    def __init__(
        self, data: Any, augment: Callable[[Sample, torch.Generator], Sample], seed: int, *, is_training: bool
    ) -> None:
        self.data, self.augment, self.seed = data, augment, seed
        self.tries = len(data) if is_training else 1

    def __getitem__(self, place: Place) -> tuple[Sample | None, dict[str, str]]:
        epoch, i = place
        failures: dict[str, str] = {}
        for ahead in range(self.tries):
            chosen = (i + ahead) % len(self.data)
            try:
                return self.augment(self.data[chosen], generator(self.seed, epoch, i)), failures
            except BadSample as reason:
                failures[self.data.names[chosen]] = str(reason)
        return None, failures


class Collate:
    """Make a batch of what `Reader` returns. It says what failed rather than raise, which loses the message."""

    def __init__(self, collate: Callable[[list[Sample]], Batch]) -> None:
        self.collate = collate

    def __call__(self, read: list[tuple[Sample | None, dict[str, str]]]) -> Loaded:
        failures = {name: reason for _, failed in read for name, reason in failed.items()}
        samples = [sample for sample, _ in read if sample is not None]
        return Loaded(self.collate(samples) if len(samples) == len(read) else {}, failures)


def training_batches(
    data: Any,
    augment: Callable[[Sample, torch.Generator], Sample],
    collate: Callable[[list[Sample]], Batch],
    order: Order,
    workers: int,
    is_pinned: bool,
) -> Iterator[Loaded]:
    reader = Reader(data, augment, order.seed, is_training=True)
    return _checked(_loader(reader, collate, order, workers, is_pinned))


def evaluation_batches(
    data: Any,
    augment: Callable[[Sample, torch.Generator], Sample],
    collate: Callable[[list[Sample]], Batch],
    batch: int,
    workers: int,
    share: Share = Share(),  # noqa: B008
) -> Iterator[Batch]:
    """Every sample once; each process its own, which need not be as many."""
    mine = [(0, i) for i in range(share.rank, len(data), share.processes)]
    places = [mine[i : i + batch] for i in range(0, len(mine), batch)]
    reader = Reader(data, augment, 0, is_training=False)
    return (loaded.batch for loaded in _checked(_loader(reader, collate, places, workers, False)))


def _loader(reader: Reader, collate: Callable[[list[Sample]], Batch], places: Any, workers: int, pin: bool) -> Any:
    return DataLoader(reader, batch_sampler=places, num_workers=workers, collate_fn=Collate(collate), pin_memory=pin)


def _checked(loader: Any) -> Iterator[Loaded]:
    for loaded in loader:
        if not loaded.batch:
            name, reason = next(iter(loaded.failures.items()))
            more = f" And {len(loaded.failures) - 1} more." if len(loaded.failures) > 1 else ""
            raise BadSample(f"{reason}{more}" if name in reason else f"{name}: {reason}{more}")
        yield loaded


def generator(*numbers: int) -> torch.Generator:
    """Random numbers that belong to these numbers."""
    return torch.Generator().manual_seed(mixed(*numbers))


def mixed(*numbers: int) -> int:
    digest = hashlib.blake2b(" ".join(map(str, numbers)).encode(), digest_size=7).digest()
    return int.from_bytes(digest, "big")
