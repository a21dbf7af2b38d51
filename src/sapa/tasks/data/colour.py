"""Changes of colour: of the picture alone, or of both layers of a composite."""

from collections.abc import Callable

import torch
from torch import Tensor
from torchvision import tv_tensors
from torchvision.transforms.v2 import functional as F

from sapa.tasks.data.draw import Draw
from sapa.tasks.data.geometry import compose
from sapa.tasks.data.sample import Sample


def recolour(sample: Sample, kind: str, draw: Draw) -> Sample:
    """A composite is composed anew of layers that were changed one by one, so that it remains one."""
    change = COLOURS[kind]
    if "fg" in sample and "bg" in sample:
        layers = {key: change(sample[key], draw) for key in ("fg", "bg")}
        return sample | layers | {"image": compose(layers["fg"], layers["bg"], sample["alpha"])}
    return sample | {"image": change(sample["image"], draw)}


def ssd(image: Tensor, draw: Draw) -> tv_tensors.Image:
    """Brightness, contrast before or after the colours, saturation and hue, each in half of the pictures: that of SSD
    (Liu et al., 2016), which SegFormer and MaskFormer train with."""
    x = image.as_subclass(Tensor)
    if draw.chance(0.5):
        x = (x + draw.uniform(-32, 32) / 255).clamp(0, 1)
    contrast = draw.uniform(0.5, 1.5) if draw.chance(0.5) else 1.0
    is_first = draw.chance(0.5)
    if is_first:
        x = (x * contrast).clamp(0, 1)
    if draw.chance(0.5):
        x = F.adjust_saturation_image(x, draw.uniform(0.5, 1.5))
    if draw.chance(0.5):
        x = F.adjust_hue_image(x, draw.uniform(-18, 18) / 180)  # of OpenCV's circle, which has 180 parts
    if not is_first:
        x = (x * contrast).clamp(0, 1)
    return tv_tensors.Image(x)


def bts(image: Tensor, draw: Draw) -> tv_tensors.Image:
    """Gamma, brightness and the balance of the channels, in half of the pictures, as BTS does on NYU."""
    x = image.as_subclass(Tensor)
    if draw.chance(0.5):
        gamma, brightness = draw.uniform(0.9, 1.1), draw.uniform(0.75, 1.25)
        balance = torch.tensor([draw.uniform(0.9, 1.1) for _ in range(3)])
        x = (x**gamma * brightness * balance[:, None, None]).clamp(0, 1)
    return tv_tensors.Image(x)


COLOURS: dict[str, Callable[[Tensor, Draw], tv_tensors.Image]] = {
    "none": lambda image, draw: tv_tensors.Image(image),
    "ssd": ssd,
    "bts": bts,
}
