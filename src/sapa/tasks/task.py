"""What a task is: data, model, loss and metric. Everything else is common to all of them."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from sapa.complexity import multiply_accumulates
from sapa.models.fit import Up
from sapa.tasks.presets import PRESETS, Preset

Sample = dict[str, Any]
Batch = dict[str, Any]
Pictures = dict[str, Tensor]


class Task(ABC):
    """Subclass it to train and compare upsamplers on something of your own; see examples/06_your_own_task.py.

    Args:
        preset: how it is trained.
        classes: names of what the data distinguishes, or None.

    Attributes:
        presets: by name.
        shown: numbers of the metric that tables show; the first is the main one.
        is_higher_better: of the main number.
        error: what the colours of the error mean, in words.
    """

    name: ClassVar[str]
    presets: ClassVar[Mapping[str, Preset]] = {}
    shown: ClassVar[tuple[str, ...]]
    is_higher_better: ClassVar[bool] = True
    error: ClassVar[str] = ""

    def __init__(self, preset: Preset, classes: Sequence[str] | None = None) -> None:
        self.preset, self.classes = preset, classes

    @classmethod
    def data(cls, preset: Preset, path: str | None, split: str) -> Any:
        """A map-style dataset of samples: `split` is "train" or "val"."""
        from sapa.tasks.data import open_data

        return open_data(cls.name, path, split, **cls.built_in(preset, path, split))

    @classmethod
    def built_in(cls, preset: Preset, path: str | None, split: str) -> dict[str, Any]:
        if path not in (None, "builtin"):
            return {}
        return {"length": preset.samples[0 if split == "train" else 1], "size": preset.size}

    def augment(self, is_training: bool) -> Callable[[Sample, torch.Generator], Sample]:
        """What is done to a sample before it becomes part of a batch."""
        from sapa.tasks.data.augment import augment

        return augment(self.name, size=self.preset.size, train=is_training, **self.preset.augment)

    def collate(self, samples: list[Sample]) -> Batch:
        from sapa.tasks.data import collate

        return collate(samples)

    def options(self) -> dict[str, Any]:
        """Those of the net, as a copy: configurations of transformers take theirs apart."""
        return deepcopy(self.preset.options)

    @abstractmethod
    def model(self, up: Up) -> nn.Module:
        """The net, with upsamplers made by `up(channels, guide_channels)`."""

    @abstractmethod
    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """Run the model on a batch; the mean over what `weight` counts."""

    def weight(self, batch: Batch) -> Tensor:
        """How much of the batch the loss is a mean of, so that batches split over processes give the mean of all."""
        return torch.tensor(float(len(batch["image"])), device=_device(batch))

    @abstractmethod
    def predict(self, model: nn.Module, batch: Batch) -> Any:
        """What the metric takes."""

    @abstractmethod
    def metric(self) -> Any:
        """A new torchmetrics.Metric whose `compute` returns numbers by name."""

    @abstractmethod
    def update(self, metric: Any, prediction: Any, batch: Batch) -> None:
        """Let the metric see a batch."""

    def pictures(self, prediction: Any, batch: Batch, i: int) -> Pictures:
        """Of sample i, by name: [3, H, W] in 0 ... 1. The first is the input, the second the truth."""
        return {"picture": batch["image"][i]}

    def evaluation_batch(self) -> int:
        """Samples that are measured at once; 1 where pictures of the data keep their own sizes."""
        return 1 if self.preset.augment.get("evaluate") == "whole" else self.preset.batch

    def inputs(self) -> tuple[Any, ...]:
        """An example to count the work of the model on."""
        return (torch.zeros(1, 3, *self.preset.size),)

    def macs(self, model: nn.Module) -> int:
        return multiply_accumulates(model, *self.inputs())


def same_classes(
    classes: Sequence[str] | None, others: Sequence[str] | None, here: str = "train", there: str = "val"
) -> Sequence[str] | None:
    """The classes, which must be those of the other data: a label means nothing else there."""
    if classes is not None and others is not None and list(classes) != list(others):
        different = [f"{a} and {b}" for a, b in zip(classes, others, strict=False) if a != b]
        first = (
            f"the first that differ are {different[0]}" if different else f"{len(classes)} and {len(others)} of them"
        )
        raise ValueError(f"the classes of {here} and of {there} are not the same: {first}.")
    return classes


def presets_of(task: type[Task]) -> Mapping[str, Preset]:
    return task.presets or PRESETS.get(task.name, {})


def _device(batch: Batch) -> torch.device:
    image = batch["image"]
    return (image if isinstance(image, Tensor) else image[0]).device
