"""Which boxes a detector learns from follows from each picture alone, and so is the same in any number of processes."""

from typing import Any, cast

import torch
from torch import Tensor, nn

from sapa.tasks.loading import mixed
from sapa.tasks.processes import summed

LOSSES = (("loss_objectness", "loss_rpn_box_reg"), ("loss_classifier", "loss_box_reg"))  # of RPN, of head


class BoxSampler:
    """Takes the place of the sampler in the RPN or the head of a detector of torchvision.

    Args:
        plain: that sampler, which says how many to draw from a picture, and what part of them objects may be.

    Attributes:
        seeds: one for each picture of the batch to come.
        count: of all that was drawn last.
    """

    def __init__(self, plain: Any) -> None:
        self.most, self.objects = plain.batch_size_per_image, plain.positive_fraction
        self.seeds: list[int] = []
        self.count = 0

    def __call__(self, labels: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        """Masks of the objects and of the background drawn from the labels [N] of each picture: 0 is background, and
        what is below is neither."""
        objects, background, self.count = [], [], 0
        for found, seed in zip(labels, self.seeds, strict=True):
            generator = torch.Generator(found.device).manual_seed(seed)
            some, many = _draw(found >= 1, int(self.most * self.objects), generator)
            others, rest = _draw(found == 0, self.most - many, generator)
            objects.append(some)
            background.append(others)
            self.count += many + rest
        return objects, background


def _draw(among: Tensor, most: int, generator: torch.Generator) -> tuple[Tensor, int]:
    (places,) = among.nonzero(as_tuple=True)
    chosen = places[torch.randperm(len(places), generator=generator, device=among.device)[:most]]
    mask = torch.zeros_like(among, dtype=torch.uint8)
    mask[chosen] = 1
    return mask, len(chosen)


def seed_boxes(detector: nn.Module) -> nn.Module:
    """Give both stages of a detector of torchvision a `BoxSampler`."""
    for stage in (detector.rpn, detector.roi_heads):
        stage.fg_bg_sampler = BoxSampler(stage.fg_bg_sampler)  # type: ignore[union-attr]
    return detector


def detection_loss(detector: nn.Module, images: list[Tensor], targets: list[Any], seeds: list[int]) -> Tensor:
    """Of both stages, each the mean over all that all processes draw."""
    bare: Any = getattr(detector, "module", detector)  # out of what several processes wrap around it
    samplers = [cast(BoxSampler, stage.fg_bg_sampler) for stage in (bare.rpn, bare.roi_heads)]
    for i, sampler in enumerate(samplers):
        sampler.seeds = [mixed(seed, i) for seed in seeds]
    losses: dict[str, Tensor] = detector(images, targets)
    totals, counts = [], []
    for sampler, names in zip(samplers, LOSSES, strict=True):
        # each is a mean over what was drawn here
        totals.append(torch.stack([losses[name] for name in names]).sum() * sampler.count)
        counts.append(sampler.count)
    total = torch.stack(totals)
    return (summed(total) / summed(total.new_tensor(counts))).sum()
