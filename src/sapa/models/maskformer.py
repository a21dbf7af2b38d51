"""MaskFormer (Cheng et al., NeurIPS 2021, arXiv 2107.06278), of transformers, with the upsampling replaced."""

from copy import copy
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import MaskFormerConfig, MaskFormerForInstanceSegmentation, MaskFormerSwinConfig, SwinConfig
from transformers.models.maskformer.modeling_maskformer import MaskFormerFPNLayer
from transformers.models.maskformer.modeling_maskformer_swin import MaskFormerSwinBackbone

from sapa.geometry import Size
from sapa.models.fit import Up

SWIN_B: dict[str, Any] = {
    "embed_dim": 128,
    "depths": [2, 2, 18, 2],
    "num_heads": [4, 8, 16, 32],
    "window_size": 12,
    "image_size": 384,
    "drop_path_rate": 0.3,
    "out_features": ["stage1", "stage2", "stage3", "stage4"],
}


def build(up: Up | None, *, weights: str | None = None, num_classes: int = 150, **options: Any) -> nn.Module:
    """MaskFormer with Swin-B; its own step is nearest."""
    config = MaskFormerConfig(**{"backbone_config": swin_b(weights), "num_labels": num_classes, **options})
    model = MaskFormerForInstanceSegmentation(config)
    pixels: Any = model.model.pixel_level_module
    if weights is not None:
        pixels.encoder = _backbone(weights, pixels.encoder.config)
    # it is there, but no output passes through it, and several processes would wait for its gradient
    backbone: Any = pixels.encoder
    backbone.model.layernorm.requires_grad_(False)
    if up is not None:
        fpn = pixels.decoder.fpn
        fpn.layers = nn.Sequential(*(Layer(layer, up) for layer in fpn.layers))
    return model


def swin_b(weights: str | None) -> SwinConfig:
    # those of the hub are asked for first, so that a hub out of reach is noticed before a model is made
    return SwinConfig(**SWIN_B) if weights is None else SwinConfig.from_pretrained(weights, **SWIN_B)


def _backbone(weights: str, config: Any) -> nn.Module:
    config = copy(config)
    # not "swin", of which transformers renames parameters on the way: this class has kept those of the hub
    config.model_type = MaskFormerSwinConfig.model_type
    return MaskFormerSwinBackbone.from_pretrained(weights, config=config, key_mapping={r"^swin\.": "model."})


class Layer(MaskFormerFPNLayer):
    """A step of the FPN: the map from below, lifted with the lateral one as its guide, plus the lateral one."""

    def __init__(self, layer: MaskFormerFPNLayer, up: Up) -> None:
        lateral: Any = layer.proj[0]
        super().__init__(lateral.out_channels, lateral.in_channels)
        self.load_state_dict(layer.state_dict(), assign=True)
        self.upsampler = up(lateral.out_channels, lateral.out_channels)

    def forward(self, down: Tensor, left: Tensor) -> Tensor:
        left = self.proj(left)
        return self.block(self.upsampler(down, left) + left)


def class_maps(output: Any, size: Size) -> Tensor:
    """What MaskFormer and Mask2Former say of each pixel, from their masks and the classes of those: [B, C, H, W]."""
    classes = output.class_queries_logits.softmax(-1)[..., :-1]  # the last is "no object"
    masks = F.interpolate(output.masks_queries_logits, size, mode="bilinear", align_corners=False).sigmoid()
    return torch.einsum("bqc,bqhw->bchw", classes, masks)
