"""The models of the paper, each with any upsampler at the steps that the paper replaces."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

from torch import nn

from sapa.checks import suggest
from sapa.models.fit import Model, all_that_fit, chosen
from sapa.nn import Upsampler

__all__ = ["MODELS", "Model", "build", "fitting"]

SWIN_B = "microsoft/swin-base-patch4-window12-384-in22k"

MODELS: dict[str, Model] = {
    "segnet_vgg16": Model(
        *("SegNet", "segnet", "max_unpool", "VGG16_BN_Weights.IMAGENET1K_V1"),
        tuple((C, C) for C in (512, 512, 256, 128, 64)),
        is_pooled=True,
    ),
    "segformer_b1": Model("SegFormer-B1", "segformer", "bilinear", "nvidia/mit-b1", ((256, 256),) * 6),
    "maskformer_swin_b": Model("MaskFormer Swin-B", "maskformer", "nearest", SWIN_B, ((256, 256),) * 3),
    "mask2former_swin_b": Model("Mask2Former Swin-B", "mask2former", "bilinear", SWIN_B, ((256, 256),)),
    "faster_rcnn_r50": Model(
        *("Faster R-CNN R50", "faster_rcnn", "nearest", "ResNet50_Weights.IMAGENET1K_V1"),
        ((256, 256),) * 3,
    ),
    "bts_r50": Model(
        *("BTS R50", "bts", "nearest", "ResNet50_Weights.IMAGENET1K_V1"),
        ((2048, 1024), (512, 512), (128, 256), (128, 64)),
    ),
    "a2u_matting_r34": Model(
        *("A2U Matting R34", "matting", "bilinear", "ResNet34_Weights.IMAGENET1K_V1"),
        tuple((C, C) for C in (256, 128, 64, 64)),
        is_pooled=True,
    ),
}


def build(
    name: str,
    upsampler: str | Callable[..., Upsampler] | None = None,
    *,
    pretrained: bool = False,
    **options: Any,
) -> nn.Module:
    """Make a model of the paper with an upsampler of this library at each of its steps.

    Args:
        name: in `MODELS`.
        upsampler: a name in `sapa.UPSAMPLERS`, or what builds one, such as `partial(sapa.SAPA, kernel_size=3)`. None
            is the model as it was published, and so is the name of its own upsampler.
        pretrained: start from the weights of the backbone that `MODELS` names, fetched where they are not cached.
        options: of the model itself, such as num_classes; for those of transformers every field of the config, for
            Faster R-CNN the arguments of torchvision's class.

    >>> model = sapa.models.build("segformer_b1", "sapa_g", num_classes=21)
    >>> logits = model(image).logits  # [B, 3, 512, 512] -> [B, 21, 128, 128]
    """
    model = _named(name)
    up = None if upsampler is None or upsampler == model.own else chosen(name, model, upsampler)
    try:
        home = import_module(f"sapa.models.{model.home}")
    except ModuleNotFoundError as missing:
        text = f"{name} needs {missing.name}: pip install 'sapa[models]'"
        raise ModuleNotFoundError(text, name=missing.name) from missing
    if not pretrained:
        return home.build(up, **options)
    try:
        return home.build(up, weights=model.weights, **options)
    except OSError as error:
        raise OSError(
            f"{name}: the weights {model.weights} are not in the cache and could not be fetched: {error}\n"
            f"Build with pretrained=False, or copy them into the cache (HF_HOME, TORCH_HOME) of this machine."
        ) from error


def fitting(name: str) -> list[str]:
    """The names in `sapa.UPSAMPLERS` that a model can be built with."""
    return all_that_fit(_named(name))


def _named(name: str) -> Model:
    if not isinstance(name, str) or name not in MODELS:
        raise KeyError(f"no model {name!r}.{suggest(name, MODELS)}")
    return MODELS[name]
