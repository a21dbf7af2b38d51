"""SegNet (Badrinarayanan et al., TPAMI 2017, arXiv 1511.00561) with VGG-16."""

from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn
from torchvision.models import get_weight
from torchvision.models.vgg import cfgs, make_layers

from sapa.models.fit import Up
from sapa.nn import MaxUnpool


def build(up: Up | None, *, weights: str | None = None, **options: Any) -> nn.Module:
    # the convolutions of VGG-16 alone: its classifier, eight times as large, is not needed
    features = make_layers(cfgs["D"], batch_norm=True)
    model = SegNet(features, up or MaxUnpool, **options)
    if weights is not None:
        state = get_weight(weights).get_state_dict(progress=False).items()
        features.load_state_dict({key.removeprefix("features."): x for key, x in state if key.startswith("features.")})
    return model


class SegNet(nn.Module):
    """Label every pixel: the convolutions of VGG-16, and the same in reverse, with an upsampler for each max pooling.

    The guide of an upsampler is the map of the encoder before it was pooled, of which max unpooling takes the places
    of the maxima.

    Args:
        features: the convolutions of a VGG net with BatchNorm, as in torchvision.
        up: makes the upsamplers from channels and guide_channels.
        num_classes: 37 in SUN RGB-D.

    The decoder has 13 convolutions, as the encoder; the last of them classifies.
    """

    def __init__(self, features: nn.Sequential, up: Up, *, num_classes: int = 37) -> None:
        super().__init__()
        self.encoder, self.decoder = nn.ModuleList(_split(features)), nn.ModuleList()
        channels = [num_classes] + [_convs(stage)[-1].out_channels for stage in self.encoder]
        for stage, below, C in reversed(list(zip(self.encoder, channels, channels[1:], strict=False))):
            # as many convolutions as in the encoder, of which the last leads to the channels of the stage below
            layers: list[nn.Module] = [_layer(C, C) for _ in _convs(stage)[1:]]
            is_last = stage is self.encoder[0]
            layers.append(nn.Conv2d(C, below, 3, padding=1) if is_last else _layer(C, below))
            self.decoder.append(nn.Sequential(*layers))
        for conv in _convs(self):
            nn.init.kaiming_normal_(conv.weight, nonlinearity="relu")
            nn.init.zeros_(conv.bias)  # type: ignore[arg-type]
        # after this, since they start in their own way
        self.upsamplers = nn.ModuleList(up(C, C) for C in reversed(channels[1:]))

    def forward(self, x: Tensor) -> Tensor:
        """[B, 3, H, W] to logits [B, num_classes, H, W]."""
        guides: list[Tensor] = []
        for stage in self.encoder:
            guides.append(stage(x))
            x = F.max_pool2d(guides[-1], 2, ceil_mode=True)
        for up, stage in zip(self.upsamplers, self.decoder, strict=True):
            x = stage(up(x, guides.pop()))
        return x


def _split(features: nn.Sequential) -> list[nn.Sequential]:
    """The layers between the poolings."""
    stages: list[list[nn.Module]] = [[]]
    for layer in features:
        if isinstance(layer, nn.MaxPool2d):
            stages.append([])
        else:
            stages[-1].append(layer)
    return [nn.Sequential(*layers) for layers in stages if layers]


def _convs(module: nn.Module) -> list[nn.Conv2d]:
    return [part for part in module.modules() if isinstance(part, nn.Conv2d)]


def _layer(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True))
