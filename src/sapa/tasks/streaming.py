"""Training on data that comes as a stream: it has no length, so steps are counted instead of epochs."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils.data import DataLoader, IterableDataset

from sapa.tasks.data import BadSample
from sapa.tasks.loading import Loaded, Order, Share, generator
from sapa.tasks.task import Batch, Sample

Augment = Callable[[Sample, torch.Generator], Sample]
Collate = Callable[[list[Sample]], Batch]


def is_stream(data: Any) -> bool:
    return isinstance(data, IterableDataset)


def length_of(data: Any) -> int | None:
    return None if is_stream(data) else len(data)


class Stream(IterableDataset[Loaded]):
    """Batches of a stream, one pass after the other. Every process reads all of it, and keeps the samples that `Order`
    would give it; to go on in the middle, what was seen is read again.

    Args:
        data: yields samples, and after a BadSample may be asked for the next; `set_epoch` gives passes their order.
        order: of which the batch, the steps, the seed and the share count.
    """

    def __init__(self, data: Any, augment: Augment, collate: Collate, order: Order) -> None:
        self.data, self.augment, self.collate, self.order = data, augment, collate, order

    def __iter__(self) -> Iterator[Loaded]:
        share, batch = self.order.share, self.order.batch
        size = batch // (share.processes * share.parts)
        first, last = (step * batch for step in (self.order.steps.start, self.order.steps.stop))
        samples: list[Sample] = []
        failures: dict[str, str] = {}
        for place, sample in enumerate(_endless(self.data, failures)):
            if place >= last:
                return
            if place < first or (place % batch) // size % share.processes != share.rank:
                continue
            samples.append(self.augment(sample, generator(self.order.seed, place)))
            if len(samples) == size:
                yield Loaded(self.collate(samples), dict(failures))
                samples.clear()
                failures.clear()


def streamed_batches(data: Any, augment: Augment, collate: Collate, order: Order, workers: int) -> Iterator[Loaded]:
    # one worker: several would each read other files, and the order would depend on how many there are
    loader = DataLoader(Stream(data, augment, collate, order), batch_size=None, num_workers=min(1, workers))
    return iter(loader)


def streamed_evaluation(data: Any, augment: Augment, collate: Collate, batch: int, share: Share) -> Iterator[Batch]:
    """Every sample of one pass once; a broken one stops it."""
    samples: list[Sample] = []
    for place, sample in enumerate(data):
        if place % share.processes == share.rank:
            samples.append(augment(sample, generator(0, place)))
        if len(samples) == batch:
            yield collate(samples)
            samples = []
    if samples:
        yield collate(samples)


def _endless(data: Any, failures: dict[str, str]) -> Iterator[Sample]:
    epoch = 0
    while True:
        if hasattr(data, "set_epoch"):
            data.set_epoch(epoch)
        found, stream = 0, iter(data)
        while True:
            try:
                sample = next(stream)
            except StopIteration:
                break
            except BadSample as reason:
                failures[str(reason).partition(":")[0]] = str(reason)
                continue
            found += 1
            yield sample
        if not found:
            raise BadSample(next(iter(failures.values()), "the stream is empty."))
        epoch += 1
