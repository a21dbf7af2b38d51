"""Samples to a batch: maps are stacked, what differs in number or size stays a list."""

from typing import Any

import torch
from torch import Tensor

from sapa.tasks.data.sample import Sample

LISTS = ("boxes", "labels", "crowd", "area")


def collate(samples: list[Sample]) -> dict[str, Any]:
    """A batch of what all samples have. Images of one size are stacked, those of several remain a list, as detectors
    take them; so for every map."""
    keys = [key for key in samples[0] if all(key in sample for sample in samples)]
    return {key: _joined(key, [sample[key] for sample in samples]) for key in keys}


def _joined(key: str, values: list[Any]) -> Any:
    if not isinstance(values[0], Tensor):
        return values
    # as plain tensors: a model has no use for what they were in the data
    plain = [value.as_subclass(Tensor) for value in values]
    if key in LISTS or any(value.shape != plain[0].shape for value in plain):
        return plain
    return torch.stack(plain)
