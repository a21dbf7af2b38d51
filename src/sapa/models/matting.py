"""A2U matting: Learning Affinity-Aware Upsampling for Deep Image Matting (Dai et al., CVPR 2021), with ResNet-34."""

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torchvision.models import get_weight

from sapa.geometry import nearest, size_of
from sapa.models.fit import Up
from sapa.nn import Bilinear

RATES = (6, 12, 18)


def build(up: Up | None, *, weights: str | None = None) -> nn.Module:
    model = Matting(up or Bilinear)
    if weights is not None:
        model.start_from(get_weight(weights).get_state_dict(progress=False))
    return model


class Matting(nn.Module):
    """How much of each pixel is foreground, from a photograph and its trimap.

    The encoder is ResNet-34 up to the fourth block of its third stage, without the strides of stem and 3x3
    convolutions: in their place stand 2x2 max poolings, and the maps before these are the guides.

    Args:
        up: makes the upsamplers from channels and guide_channels; upsampler 0 lifts the smallest map.

    In its own paper A2U makes the way down too; the poolings are those of the comparison in the paper of SAPA.
    """

    def __init__(self, up: Up) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(4, 64, 7, padding=3, bias=False), nn.BatchNorm2d(64)
        self.layer1 = nn.Sequential(*(Block(64, 64) for _ in range(3)))
        self.layer2 = nn.Sequential(Block(64, 128, is_pooling=True), *(Block(128, 128) for _ in range(3)))
        self.layer3 = nn.Sequential(Block(128, 256, is_pooling=True), *(Block(256, 256) for _ in range(3)))
        self.aspp = ASPP(256, 256)
        self.skips = nn.ModuleList(_layer(*channels) for channels in ((128, 256), (64, 128), (64, 64), (4, 64)))
        self.decoder = nn.ModuleList(
            nn.Sequential(Block(inputs, outputs), Block(outputs, outputs))
            for inputs, outputs in ((256, 128), (128, 64), (64, 64), (64, 32))
        )
        self.predict = nn.Sequential(_layer(32, 1), nn.Conv2d(1, 1, 3, padding=1, bias=False))
        for part in self.modules():
            if isinstance(part, nn.Conv2d):
                nn.init.kaiming_normal_(part.weight, 0.01)
        # after this, since they start in their own way
        self.upsamplers = nn.ModuleList(up(C, C) for C in (256, 128, 64, 64))

    def forward(self, x: Tensor) -> Tensor:
        """Photograph and trimap [B, 4, H, W] to alpha [B, 1, H, W], which is to be clamped to 0 ... 1."""
        full = _active(self.bn1(self.conv1(x)))  # [B, 64, H, W]
        half = _pool(full)
        quarter = self.layer1(_pool(half))
        guide4, eighth = _down(self.layer2, quarter)
        guide8, sixteenth = _down(self.layer3, eighth)
        guides, skips = (guide8, guide4, half, full), (eighth, quarter, half, x)
        y = self.aspp(sixteenth)
        for up, merge, stage, guide, skip in zip(self.upsamplers, self.skips, self.decoder, guides, skips, strict=True):
            y = stage(up(y, guide) + merge(skip))
        return self.predict(y)

    def start_from(self, resnet: Mapping[str, Tensor]) -> None:
        """Load the encoder from ResNet-34; the trimap begins with weights of 0."""
        mine = self.state_dict()
        state = {key: value for key, value in resnet.items() if key in mine}
        state["conv1.weight"] = F.pad(state["conv1.weight"], (0, 0, 0, 0, 0, 1))
        self.load_state_dict(state, strict=False)


class Block(nn.Module):
    """Two 3x3 convolutions beside a shortcut, with the names of torchvision's."""

    def __init__(self, inputs: int, outputs: int, *, is_pooling: bool = False) -> None:
        super().__init__()
        self.is_pooling = is_pooling
        self.conv1, self.bn1 = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs)
        self.conv2, self.bn2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs)
        shortcut = nn.Conv2d(inputs, outputs, 1, stride=2 if is_pooling else 1, bias=False)
        self.downsample = nn.Identity() if inputs == outputs else nn.Sequential(shortcut, nn.BatchNorm2d(outputs))

    def forward(self, x: Tensor) -> Tensor:
        return self.narrow(self.widen(x), x)

    def widen(self, x: Tensor) -> Tensor:
        return _active(self.bn1(self.conv1(x)))

    def narrow(self, y: Tensor, x: Tensor) -> Tensor:
        y = self.bn2(self.conv2(_pool(y) if self.is_pooling else y))
        return _active(y + self.downsample(x))


class ASPP(nn.Module):
    """What lies around a point at several distances, and in the whole map."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.branches = nn.ModuleList([_layer(inputs, 256, 1)])
        for rate in RATES:
            apart = _layer(inputs, inputs, 3, dilation=rate, groups=inputs)
            self.branches.append(nn.Sequential(apart, _layer(inputs, 256, 1)))
        self.whole = nn.Sequential(nn.AdaptiveAvgPool2d(1), _layer(inputs, 256, 1))
        self.fuse = nn.Sequential(_layer(256 * (len(RATES) + 2), outputs, 1), nn.Dropout(0.5))

    def forward(self, x: Tensor) -> Tensor:
        maps = [branch(x) for branch in self.branches]
        return self.fuse(torch.cat([*maps, nearest(self.whole(x), size_of(x))], 1))


def _down(layer: nn.Sequential, x: Tensor) -> tuple[Tensor, Tensor]:
    """The map that the first block pools, and the map that the layer makes."""
    first: Any = layer[0]
    guide = first.widen(x)
    return guide, layer[1:](first.narrow(guide, x))


def _layer(inputs: int, outputs: int, kernel_size: int = 3, *, dilation: int = 1, groups: int = 1) -> nn.Sequential:
    padding = dilation * (kernel_size // 2)
    conv = nn.Conv2d(inputs, outputs, kernel_size, padding=padding, dilation=dilation, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(outputs), nn.LeakyReLU(0.01))


def _active(x: Tensor) -> Tensor:
    return F.leaky_relu(x, 0.01)


def _pool(x: Tensor) -> Tensor:
    return F.max_pool2d(x, 2, ceil_mode=True)
