"""BTS: From Big to Small, Multi-Scale Local Planar Guidance for Monocular Depth (Lee et al., arXiv 1907.10326)."""

from itertools import pairwise
from math import pi
from typing import Any

import torch
from torch import Tensor, nn
from torchvision.models import ResNet, resnet50

from sapa.geometry import Size, nearest, size_of
from sapa.models.fit import Up
from sapa.nn import Nearest

SKIPS = {"relu": 64, "layer1": 256, "layer2": 512, "layer3": 1024, "layer4": 2048}
RATES = (3, 6, 12, 18, 24)


def build(up: Up | None, *, weights: str | None = None, **options: Any) -> nn.Module:
    return BTS(resnet50(weights=weights), up or Nearest, **options)


class BTS(nn.Module):
    """Depth of every pixel from one photograph.

    At 1/8, 1/4 and 1/2 of the size the decoder predicts a plane for each point, and these planes at full size, next to
    the last features, make the depth. Every upsampling but the last has a map of the encoder beside it as its guide.

    Args:
        resnet: ResNet-50, of which the classifier is left out.
        up: makes the upsamplers from channels and guide_channels; upsampler 0 lifts the smallest map.
        max_depth: in metres; 10 for NYU Depth V2.

    Names: upN and fuseN make the maps of 1/N of the size; in the paper these are upconv and iconv, and the planes LPG.
    """

    def __init__(self, resnet: ResNet, up: Up, *, max_depth: float = 10.0) -> None:
        super().__init__()
        self.max_depth = max_depth
        s2, s4, s8, s16, s32 = SKIPS.values()
        self.up16, self.fuse16 = _conv(s32, 512, has_norm=True), _conv(512 + s16, 512)
        self.up8, self.fuse8 = _conv(512, 256, has_norm=True), _conv(256 + s8, 256, has_norm=True)
        self.aspp = DenseASPP(256 + s8)
        self.planes8 = Planes((128, 128, 64, 32, 16, 8), 8)
        self.up4, self.fuse4 = _conv(128, 128, has_norm=True), _conv(128 + s4 + 1, 128)
        self.planes4 = Planes((128, 64, 32, 16, 8), 4)
        self.up2, self.fuse2 = _conv(128, 64, has_norm=True), _conv(64 + s2 + 1, 64)
        self.planes2 = Planes((64, 32, 16, 8), 2)
        self.up1, self.reduce1 = _conv(64, 32), nn.Sequential(*_pointwise((32, 16, 8, 1)), nn.Sigmoid())
        self.fuse1, self.depth = _conv(32 + 4, 32), nn.Conv2d(32, 1, 3, padding=1, bias=False)
        # encoder and upsamplers come later: they start in their own way
        for part in self.modules():
            if isinstance(part, nn.Conv2d):
                nn.init.xavier_uniform_(part.weight)
        layers = {name: layer for name, layer in resnet.named_children() if name not in ("avgpool", "fc")}
        self.encoder = nn.ModuleDict(layers)
        self.upsamplers = nn.ModuleList([up(s32, s16), up(512, s8), up(128, s4), up(128, s2)])

    def forward(self, image: Tensor) -> Tensor:
        """[B, 3, H, W] to metres [B, 1, H, W]."""
        size = size_of(image)
        s2, s4, s8, s16, x = self.encode(image)
        lift16, lift8, lift4, lift2 = self.upsamplers
        x = self.fuse16(torch.cat([self.up16(lift16(x, s16)), s16], 1))
        skip = torch.cat([self.up8(lift8(x, s8)), s8], 1)
        x = self.aspp(self.fuse8(skip), skip)
        depth8 = self.planes8(x, size)  # [B, 1, H, W], as all of them
        x = self.fuse4(torch.cat([self.up4(lift4(x, s4)), s4, depth8[..., ::4, ::4]], 1))
        depth4 = self.planes4(x, size)
        x = self.fuse2(torch.cat([self.up2(lift2(x, s2)), s2, depth4[..., ::2, ::2]], 1))
        depth2 = self.planes2(x, size)
        x = self.up1(nearest(x, size))
        x = self.fuse1(torch.cat([x, self.reduce1(x), depth2, depth4, depth8], 1))
        return self.max_depth * self.depth(x).sigmoid()

    def encode(self, x: Tensor) -> list[Tensor]:
        """The maps of `SKIPS`, at 1/2 to 1/32 of the size."""
        maps: list[Tensor] = []
        for name, layer in self.encoder.items():
            x = layer(x)
            if name in SKIPS:
                maps.append(x)
        return maps


class DenseASPP(nn.Module):
    """Convolutions with holes of growing width, each of which sees the results of those before it."""

    def __init__(self, skip_channels: int) -> None:
        super().__init__()
        self.branches = nn.ModuleList()
        for i, rate in enumerate(RATES):
            inputs = 256 if i == 0 else skip_channels + 128 * i
            first = nn.Identity() if i == 0 else _norm(inputs)
            narrow = (nn.Conv2d(inputs, 256, 1, bias=False), nn.BatchNorm2d(256, momentum=0.01), nn.ReLU())
            wide = nn.Conv2d(256, 128, 3, padding=rate, dilation=rate, bias=False)
            self.branches.append(nn.Sequential(first, nn.ReLU(), *narrow, wide))
        self.fuse = _conv(256 + 128 * len(RATES), 128)

    def forward(self, x: Tensor, skip: Tensor) -> Tensor:
        results: list[Tensor] = []
        for branch in self.branches:
            results.append(branch(torch.cat([skip, *results], 1) if results else x))
        return self.fuse(torch.cat([x, *results], 1))


class Planes(nn.Module):
    """Local planar guidance: each point predicts a plane, and the plane the depth of the S*S pixels it covers."""

    def __init__(self, widths: tuple[int, ...], scale: int) -> None:
        super().__init__()
        self.scale = scale
        self.reduce = nn.Sequential(*_pointwise((*widths, 3)))

    def forward(self, x: Tensor, size: Size) -> Tensor:
        """[B, C, h, w] to depth, as a part of the largest, [B, 1, H, W]."""
        polar, azimuth, distance = self.reduce(x).sigmoid().split(1, 1)
        polar, azimuth = polar * pi / 3, azimuth * 2 * pi
        plane = [polar.sin() * azimuth.cos(), polar.sin() * azimuth.sin(), polar.cos(), distance]
        whole = (self.scale * x.shape[2], self.scale * x.shape[3])
        a, b, c, distance = (nearest(part, whole)[..., : size[0], : size[1]] for part in plane)
        # the place of a pixel inside its cell, from -1/2 to 1/2
        rows, columns = (
            ((torch.arange(n, device=x.device) % self.scale + 0.5) / self.scale - 0.5).to(x.dtype) for n in size
        )
        return distance / (a * columns + b * rows[:, None] + c)


def _conv(inputs: int, outputs: int, *, has_norm: bool = False) -> nn.Sequential:
    layers = [nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.ELU()]
    return nn.Sequential(*layers, _norm(outputs)) if has_norm else nn.Sequential(*layers)


def _norm(channels: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(channels, momentum=0.01, eps=1.1e-5)


def _pointwise(widths: tuple[int, ...]) -> list[nn.Module]:
    """1x1 convolutions with an ELU between them."""
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(widths):
        layers += [nn.Conv2d(inputs, outputs, 1, bias=False), nn.ELU()]
    return layers[:-1]
