"""Mask2Former (Cheng et al., CVPR 2022, arXiv 2112.01527), of transformers, with the upsampling replaced."""

from typing import Any

from torch import Tensor, nn
from transformers import Mask2FormerConfig, Mask2FormerForUniversalSegmentation, SwinBackbone
from transformers.models.mask2former.modeling_mask2former import Mask2FormerPixelDecoder

from sapa.models.fit import Up
from sapa.models.maskformer import swin_b


def build(up: Up | None, *, weights: str | None = None, num_classes: int = 150, **options: Any) -> nn.Module:
    """Mask2Former with Swin-B; its own step, from 1/8 to 1/4 of the image, is bilinear."""
    config = Mask2FormerConfig(**{"backbone_config": swin_b(weights), "num_labels": num_classes, **options})
    model = Mask2FormerForUniversalSegmentation(config)
    pixels = model.model.pixel_level_module
    if weights is not None:
        pixels.encoder = SwinBackbone.from_pretrained(weights, config=pixels.encoder.config)
    if up is not None:
        pixels.decoder = PixelDecoder(pixels.decoder, up)
    return model


class PixelDecoder(Mask2FormerPixelDecoder):
    """The deformable encoder as it is, and then the step to 1/4 of the image, which makes the mask features."""

    adapter_1: nn.Module
    layer_1: nn.Module

    def __init__(self, decoder: Mask2FormerPixelDecoder, up: Up) -> None:
        super().__init__(decoder.config, decoder.feature_channels)
        C = decoder.config.feature_size
        self.mask_projection = LateConv(C, decoder.config.mask_feature_size, 1)
        self.load_state_dict(decoder.state_dict(), assign=True)
        self.upsampler = up(C, C)
        # no step in the forward of transformers, which then ends with the map of 1/8
        self.num_fpn_levels = 0

    def forward(self, features: list[Tensor], *args: Any, **kwargs: Any) -> Any:
        output: Any = super().forward(features, *args, **kwargs)
        lateral = self.adapter_1(features[0])
        lifted = self.upsampler(output.mask_features, lateral)
        output.mask_features = self.mask_projection.convolve(self.layer_1(lateral + lifted))
        return output


class LateConv(nn.Conv2d):
    """A convolution that lets everything through until it is asked."""

    def forward(self, input: Tensor) -> Tensor:
        return input

    def convolve(self, x: Tensor) -> Tensor:
        return super().forward(x)
