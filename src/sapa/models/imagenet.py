"""Pictures as backbones trained on ImageNet expect them."""

import torch
from torch import Tensor

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def normalise(image: Tensor) -> Tensor:
    """[..., 3, H, W] from 0 to 1, to a mean of 0 and a deviation of 1."""
    mean, std = (torch.tensor(of, device=image.device, dtype=image.dtype)[:, None, None] for of in (MEAN, STD))
    return (image - mean) / std
