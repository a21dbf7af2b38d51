"""Faster R-CNN with ResNet-50 and FPN (Lin et al., CVPR 2017), of torchvision, with the upsampling replaced."""

from collections import OrderedDict
from typing import Any

from torch import Tensor, nn
from torchvision.models.detection import FasterRCNN
from torchvision.models.detection.backbone_utils import resnet_fpn_backbone
from torchvision.ops import FeaturePyramidNetwork

from sapa.models.fit import Up


def build(
    up: Up | None,
    *,
    weights: str | None = None,
    num_classes: int = 80,
    trainable_layers: int | None = None,
    **options: Any,
) -> nn.Module:
    """Faster R-CNN; its own step is nearest.

    Args:
        num_classes: of objects; the background is one more.
        trainable_layers: of the five of ResNet, from the last on. None is all of them, and with `weights` 3, as in the
            paper, where stem and first stage stay as they are.
    """
    backbone = resnet_fpn_backbone(
        backbone_name="resnet50",
        weights=weights,
        # the statistics of a few large images would be worse than those of ImageNet
        norm_layer=nn.BatchNorm2d if weights is None else StillNorm,
        trainable_layers=(5 if weights is None else 3) if trainable_layers is None else trainable_layers,
    )
    if up is not None:
        backbone.fpn = FPN(backbone.fpn, up)
    return FasterRCNN(backbone, num_classes + 1, **options)


class StillNorm(nn.BatchNorm2d):
    """A BatchNorm that keeps its statistics, but learns weight and bias."""

    def train(self, mode: bool = True) -> "StillNorm":
        return super().train(False)


class FPN(FeaturePyramidNetwork):
    """Each lateral map plus the one below it, lifted with the lateral map as its guide; upsampler i makes level i."""

    def __init__(self, fpn: FeaturePyramidNetwork, up: Up) -> None:
        blocks: Any = fpn.inner_blocks
        inner = [block[0] for block in blocks]
        C = inner[0].out_channels
        super().__init__([conv.in_channels for conv in inner], C, fpn.extra_blocks)
        self.load_state_dict(fpn.state_dict(), assign=True)
        self.upsamplers = nn.ModuleList(up(C, C) for _ in inner[1:])

    def forward(self, x: dict[str, Tensor]) -> dict[str, Tensor]:
        maps, names = list(x.values()), list(x)
        lateral = [self.get_result_from_inner_blocks(map, i) for i, map in enumerate(maps)]
        for i, up in reversed(list(enumerate(self.upsamplers))):
            lateral[i] = lateral[i] + up(lateral[i + 1], lateral[i])
        results = [self.get_result_from_layer_blocks(map, i) for i, map in enumerate(lateral)]
        if self.extra_blocks is not None:
            results, names = self.extra_blocks(results, maps, names)
        return OrderedDict(zip(names, results, strict=True))
