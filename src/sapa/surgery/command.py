"""The models that `sapa find` can make by name, untrained."""

from collections.abc import Callable
from difflib import get_close_matches
from importlib import import_module
from inspect import signature
from typing import Any

import torch
from torch import nn

from sapa.geometry import Size


def torchvision(name: str) -> nn.Module:
    models: Any = import_module("torchvision.models")
    make = models.get_model_builder(name)
    return make(**{key: None for key in ("weights", "weights_backbone") if key in signature(make).parameters})


def timm(name: str) -> nn.Module:
    return import_module("timm").create_model(name, pretrained=False)


def smp(name: str) -> nn.Module:
    return _named("segmentation_models_pytorch", name)(encoder_weights=None)


def transformers(name: str) -> nn.Module:
    make = _named("transformers", name)
    return make(make.config_class())


LIBRARIES: dict[str, Callable[[str], nn.Module]] = {
    "torchvision": torchvision,
    "timm": timm,
    "smp": smp,
    "transformers": transformers,
}


def load(what: str) -> nn.Module:
    """A model by `library:name`, or what `module:function` returns, in evaluation mode."""
    place, colon, name = what.partition(":")
    if not colon or not name:
        raise ValueError(f"give library:name with one of {', '.join(LIBRARIES)}, or module:function, not {what!r}")
    model = LIBRARIES[place](name) if place in LIBRARIES else _named(place, name)()
    if not isinstance(model, nn.Module):
        raise ValueError(f"{what} gave no module but {type(model).__name__}")
    return model.eval()


def example_for(model: nn.Module, size: Size) -> tuple[Any, ...]:
    """A picture, in a list for the detectors of torchvision."""
    if type(model).__module__.startswith("torchvision.models.detection"):
        return ([torch.rand(3, *size)],)
    return (torch.rand(1, 3, *size),)


def _named(module: str, name: str) -> Any:
    found = import_module(module)
    if not hasattr(found, name):
        close = get_close_matches(name, dir(found), 1)
        raise ValueError(f"{module} has no {name!r}." + (f" Did you mean {close[0]!r}?" if close else ""))
    return getattr(found, name)
