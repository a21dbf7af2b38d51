"""Models of other libraries, and one of nobody's, on which surgery is tried and counted: small, with random weights."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

library = import_module  # only those that are asked for, and with no types

Made = tuple[Any, tuple[Any, ...]]  # a model in evaluation mode, and an example of its inputs
RANDOM = {"weights": None, "weights_backbone": None}


class UNet(nn.Module):
    """As one writes it in a paper's repository: interpolation and concatenation in one long forward."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        sizes = [width, 2 * width, 4 * width]
        self.encoder = nn.ModuleList([nn.Conv2d(a, b, 3, padding=1) for a, b in zip([3, *sizes], sizes, strict=False)])
        self.decoder = nn.ModuleList(
            [nn.Conv2d(6 * width, 2 * width, 3, padding=1), nn.Conv2d(3 * width, width, 3, padding=1)]
        )
        self.head = nn.Conv2d(width, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        skips = []
        for i, conv in enumerate(self.encoder):
            x = torch.relu(conv(x if i == 0 else F.max_pool2d(x, 2)))
            skips.append(x)
        for conv, skip in zip(self.decoder, skips[-2::-1], strict=True):
            x = F.interpolate(x, size=skip.shape[-2:], mode="bilinear")
            x = torch.relu(conv(torch.cat([x, skip], 1)))
        return self.head(x)


class Decoder(nn.Module):
    """A user's own, on the features of a timm backbone."""

    def __init__(self, name: str = "resnet18", width: int = 32) -> None:
        super().__init__()
        self.backbone: Any = library("timm").create_model(name, features_only=True, pretrained=False)
        self.laterals = nn.ModuleList([nn.Conv2d(C, width, 1) for C in self.backbone.feature_info.channels()])
        self.up = nn.Upsample(scale_factor=2, mode="nearest")
        self.head = nn.Conv2d(width, 1, 3, padding=1)

    def forward(self, image: Tensor) -> Tensor:
        features = self.backbone(image)
        x = self.laterals[-1](features[-1])
        for lateral, feature in zip(self.laterals[-2::-1], features[-2::-1], strict=True):
            x = self.up(x) + lateral(feature)
        return self.head(x)


def unet() -> Made:
    return UNet().eval(), (torch.rand(1, 3, 32, 48),)


def timm_features() -> Made:
    return Decoder().eval(), (torch.rand(1, 3, 64, 96),)


def detector(name: str) -> Callable[[], Made]:
    def make() -> Made:
        few = {"detections_per_img" if name.startswith("retina") else "box_detections_per_img": 4}
        model = library("torchvision.models").get_model(name, min_size=96, max_size=128, **few, **RANDOM)
        return model.eval(), ([torch.rand(3, 96, 128)],)

    return make


def torchvision_segmenter(name: str) -> Callable[[], Made]:
    def make() -> Made:
        return library("torchvision.models").get_model(name, **RANDOM).eval(), (torch.rand(1, 3, 64, 96),)

    return make


def smp(name: str) -> Callable[[], Made]:
    def make() -> Made:
        model = getattr(library("segmentation_models_pytorch"), name)("resnet18", encoder_weights=None, classes=5)
        return model.eval(), (torch.rand(1, 3, 128, 160),)

    return make


def segformer() -> Made:
    hf = library("transformers")

    config = hf.SegformerConfig(depths=[1] * 4, hidden_sizes=[8, 16, 32, 64], decoder_hidden_size=32, num_labels=5)
    return hf.SegformerForSemanticSegmentation(config).eval(), (torch.rand(1, 3, 64, 96),)


def maskformer() -> Made:
    hf = library("transformers")

    width = {"d_model": 32, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32}
    decoder = hf.DetrConfig(encoder_layers=1, decoder_layers=1, num_queries=4, **width)
    config = hf.MaskFormerConfig(
        backbone_config=_swin(), decoder_config=decoder, fpn_feature_size=32, mask_feature_size=32, num_labels=5
    )
    return hf.MaskFormerForInstanceSegmentation(config).eval(), (torch.rand(1, 3, 64, 96),)


def mask2former() -> Made:
    hf = library("transformers")

    config = hf.Mask2FormerConfig(
        backbone_config=_swin(),
        feature_size=32,
        mask_feature_size=32,
        hidden_dim=32,
        num_queries=4,
        encoder_layers=1,
        decoder_layers=2,
        encoder_feedforward_dim=32,
        dim_feedforward=32,
        num_labels=5,
    )
    return hf.Mask2FormerForUniversalSegmentation(config).eval(), (torch.rand(1, 3, 64, 96),)


def upernet() -> Made:
    hf = library("transformers")

    stages = ["stage1", "stage2", "stage3", "stage4"]
    backbone = hf.ConvNextConfig(depths=[1] * 4, hidden_sizes=[8, 16, 32, 64], out_features=stages)
    config = hf.UperNetConfig(backbone_config=backbone, hidden_size=32, num_labels=5, auxiliary_in_channels=32)
    return hf.UperNetForSemanticSegmentation(config).eval(), (torch.rand(1, 3, 64, 96),)


def dpt() -> Made:
    hf = library("transformers")

    config = hf.DPTConfig(
        image_size=64,
        hidden_size=32,
        num_hidden_layers=4,
        num_attention_heads=2,
        intermediate_size=64,
        backbone_out_indices=[0, 1, 2, 3],
        neck_hidden_sizes=[8, 16, 32, 32],
        fusion_hidden_size=16,
        is_hybrid=False,
    )
    return hf.DPTForDepthEstimation(config).eval(), (torch.rand(1, 3, 64, 64),)


def depth_anything() -> Made:
    hf = library("transformers")

    stages = ["stage1", "stage2", "stage3", "stage4"]
    backbone = hf.Dinov2Config(
        hidden_size=32,
        num_hidden_layers=4,
        num_attention_heads=2,
        image_size=70,
        patch_size=14,
        out_features=stages,
        reshape_hidden_states=False,
    )
    config = hf.DepthAnythingConfig(
        backbone_config=backbone,
        reassemble_hidden_size=32,
        neck_hidden_sizes=[8, 16, 32, 32],
        fusion_hidden_size=16,
        head_hidden_size=8,
    )
    return hf.DepthAnythingForDepthEstimation(config).eval(), (torch.rand(1, 3, 70, 84),)


def _swin() -> Any:
    hf = library("transformers")

    stages = ["stage1", "stage2", "stage3", "stage4"]
    return hf.SwinConfig(
        embed_dim=8, depths=[1] * 4, num_heads=[1, 1, 2, 2], window_size=2, image_size=64, out_features=stages
    )


MODELS: dict[str, Callable[[], Made]] = {
    "a U-Net by hand": unet,
    "timm features_only, nn.Upsample": timm_features,
    "torchvision Faster R-CNN": detector("fasterrcnn_resnet50_fpn"),
    "torchvision Mask R-CNN": detector("maskrcnn_resnet50_fpn"),
    "torchvision RetinaNet": detector("retinanet_resnet50_fpn"),
    "torchvision FCN": torchvision_segmenter("fcn_resnet50"),
    "torchvision DeepLabV3": torchvision_segmenter("deeplabv3_resnet50"),
    "torchvision LRASPP": torchvision_segmenter("lraspp_mobilenet_v3_large"),
    "transformers SegFormer": segformer,
    "transformers MaskFormer": maskformer,
    "transformers Mask2Former": mask2former,
    "transformers UPerNet": upernet,
    "transformers DPT": dpt,
    "transformers DepthAnything": depth_anything,
    "smp Unet": smp("Unet"),
    "smp Unet++": smp("UnetPlusPlus"),
    "smp FPN": smp("FPN"),
    "smp PAN": smp("PAN"),
    "smp DeepLabV3+": smp("DeepLabV3Plus"),
    "smp UPerNet": smp("UPerNet"),
}
