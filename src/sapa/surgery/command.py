"""The models that the command line can make by name, untrained, and what they run on."""

import sys
from collections.abc import Callable
from difflib import get_close_matches
from importlib import import_module
from inspect import signature
from typing import Any

from torch import Tensor, nn

from sapa import models
from sapa.models.imagenet import normalise


def torchvision(name: str) -> nn.Module:
    models: Any = import_module("torchvision.models")
    if name not in models.list_models():
        raise ValueError(f"torchvision has no {name!r}.{_closest(name, models.list_models())}")
    make = models.get_model_builder(name)
    return make(**{key: None for key in ("weights", "weights_backbone") if key in signature(make).parameters})


def timm(name: str) -> nn.Module:
    return import_module("timm").create_model(name, pretrained=False)


def smp(name: str) -> nn.Module:
    return _named("segmentation_models_pytorch", name)(encoder_weights=None)


def transformers(name: str) -> nn.Module:
    make = _named("transformers", name)
    return make(make.config_class())


def paper(name: str) -> nn.Module:
    model, _, upsampler = name.partition(":")
    return models.build(model, upsampler or None)


LIBRARIES: dict[str, Callable[[str], nn.Module]] = {
    "sapa": paper,
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
    if place not in LIBRARIES:
        sys.path.insert(0, "")  # a module of the working directory
    try:
        model = LIBRARIES[place](name) if place in LIBRARIES else _named(place, name)()
    except ModuleNotFoundError as missing:
        raise ModuleNotFoundError(f"{what} needs {missing.name}, which is not installed.", name=missing.name) from None
    if not isinstance(model, nn.Module):
        raise ValueError(f"{what} gave no module but {type(model).__name__}")
    return model.eval()


def example_of(model: nn.Module, photo: Tensor) -> tuple[Any, ...]:
    """A photograph [1, 3, H, W] from 0 to 1 as the model takes it: detectors of torchvision normalise it themselves."""
    if type(model).__module__.startswith("torchvision.models.detection"):
        return ([photo[0]],)
    return (normalise(photo),)


def _named(module: str, name: str) -> Any:
    found = import_module(module)
    if not hasattr(found, name):
        raise ValueError(f"{module} has no {name!r}.{_closest(name, dir(found))}")
    return getattr(found, name)


def _closest(name: str, known: list[str]) -> str:
    close = get_close_matches(name, known, 1)
    return f" Did you mean {close[0]!r}?" if close else ""
