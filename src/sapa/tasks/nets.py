"""Small nets for the CPU: an encoder, and a pyramid in which a map is lifted and added to the next finer one."""

from itertools import pairwise
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sapa.geometry import size_of
from sapa.models.fit import Up


class MobileNet(nn.Module):
    """MobileNetV2 (Sandler et al., CVPR 2018) of torchvision as an encoder: maps at 1/2 to 1/32 of the size."""

    TAPS = (1, 3, 6, 13, 17)
    channels = (16, 24, 32, 96, 320)

    def __init__(self, inputs: int = 3) -> None:
        super().__init__()
        from torchvision.models import mobilenet_v2

        self.features = mobilenet_v2(weights=None).features[: self.TAPS[-1] + 1]
        if inputs != 3:
            first = self.features[0][0]  # type: ignore[index]
            self.features[0][0] = nn.Conv2d(inputs, first.out_channels, 3, 2, 1, bias=False)  # type: ignore[index]

    def forward(self, x: Tensor) -> list[Tensor]:
        maps: list[Tensor] = []
        for i, layer in enumerate(self.features):
            x = layer(x)
            if i in self.TAPS:
                maps.append(x)
        return maps

    def start_from(self, path: str | Path) -> None:
        """Load the weights of torchvision's file. Further inputs, as the trimap of matting, begin with weights of 0."""
        mine = self.state_dict()
        state = {key: value for key, value in read_weights(path).items() if key in mine}
        missing = sorted(mine.keys() - state.keys())
        if missing:
            raise ValueError(f"{path} has no {missing[0]}, and {len(missing) - 1} more; it is not MobileNetV2.")
        first = state["features.0.0.weight"]
        more = mine["features.0.0.weight"].shape[1] - first.shape[1]
        state["features.0.0.weight"] = F.pad(first, (0, 0, 0, 0, 0, more))
        self.load_state_dict(state)


class Plain(nn.Module):
    """A few convolutions, to be trained from nothing in seconds: maps at 1/2 to 1/16 of the size."""

    channels = (16, 32, 48, 64)

    def __init__(self, inputs: int = 3) -> None:
        super().__init__()
        widths = (inputs, *self.channels)
        self.stages = nn.ModuleList(nn.Sequential(layer(a, b, stride=2), layer(b, b)) for a, b in pairwise(widths))

    def forward(self, x: Tensor) -> list[Tensor]:
        maps: list[Tensor] = []
        for stage in self.stages:
            x = stage(x)
            maps.append(x)
        return maps

    def start_from(self, path: str | Path) -> None:
        raise ValueError(f"the quick net has no pretrained weights; {path} is for --preset small.")


ENCODERS = {"quick": Plain, "small": MobileNet}


class Pyramid(nn.Module):
    """Encoder and decoder. The guide of each step is the lateral map that the lifted one is added to.

    Args:
        net: a name in `ENCODERS`.
        up: makes the upsamplers from channels and guide_channels; upsampler 0 lifts the smallest map.
        outputs: channels of the result.
        width: C, of all maps in the decoder.
        stride: of the finest map in the decoder: 1, 2 or 4. The result is interpolated from there.
        inputs: channels of the picture.
    """

    def __init__(self, net: str, up: Up, outputs: int, *, width: int = 64, stride: int = 4, inputs: int = 3) -> None:
        super().__init__()
        self.encoder = ENCODERS[net](inputs)
        self.skip = {1: 0, 2: 0, 4: 1}[stride]  # maps of the encoder that are finer than needed
        channels = self.encoder.channels[self.skip :]
        # at full size the guide is made of the picture itself
        self.stem = layer(inputs, width) if stride == 1 else None
        self.lateral = nn.ModuleList(nn.Conv2d(C, width, 1) for C in channels)
        steps = len(channels) - 1 + (stride == 1)
        self.fuse = nn.ModuleList(layer(width, width) for _ in range(steps))
        self.head = nn.Conv2d(width, outputs, 1)
        # last, so that all else starts alike whatever they are
        self.upsamplers = nn.ModuleList(up(width, width) for _ in range(steps))

    def forward(self, x: Tensor) -> Tensor:
        """[B, inputs, H, W] to [B, outputs, H, W]."""
        maps = self.encoder(x)[self.skip :]
        guides = [lateral(map) for lateral, map in zip(self.lateral, maps, strict=True)]
        if self.stem is not None:
            guides = [self.stem(x), *guides]
        y = guides.pop()
        for up, fuse in zip(self.upsamplers, self.fuse, strict=True):
            guide = guides.pop()
            y = fuse(up(y, guide) + guide)
        y = self.head(y)
        return y if size_of(y) == size_of(x) else F.interpolate(y, size_of(x), mode="bilinear", align_corners=False)


def layer(inputs: int, outputs: int, *, stride: int = 1) -> nn.Sequential:
    conv = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(outputs), nn.ReLU(inplace=True))


def read_weights(path: str | Path) -> dict[str, Tensor]:
    """A state dict from a file that can hold tensors only: nothing in it is executed."""
    path = Path(path)
    if path.suffix == ".safetensors":
        from safetensors.torch import load_file

        return load_file(path)
    state = torch.load(path, map_location="cpu", weights_only=True)
    if not isinstance(state, dict) or not all(isinstance(value, Tensor) for value in state.values()):
        raise ValueError(f"{path} holds no state dict.")
    return state
