"""The optimizer of a preset, and its learning rate at each step."""

from fnmatch import fnmatchcase
from math import cos, pi
from typing import Any

import torch
from torch import nn

from sapa.nn import Upsampler
from sapa.tasks.presets import Group, Preset

NORMS = (nn.LayerNorm, nn.GroupNorm, nn.modules.batchnorm._BatchNorm, nn.Embedding)
SCHEDULES = ("constant", "poly", "cosine", "step")


def optimizer_of(preset: Preset, model: nn.Module) -> torch.optim.Optimizer:
    """Parameters in groups by their factors; each group keeps its own learning rate as `base`."""
    sorted_out: dict[tuple[float, float], list[nn.Parameter]] = {}
    spared = set() if preset.decays_norms else _of_norms(model)
    places = _of_upsamplers(model)
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            place = places.get(name, name)
            group = next((each for each in preset.groups if fnmatchcase(place, each.pattern)), Group("*"))
            decay = 0.0 if name in spared else preset.weight_decay * group.decay
            sorted_out.setdefault((preset.lr * group.lr, decay), []).append(parameter)
    groups: Any = [
        {"params": parameters, "lr": lr, "base": lr, "weight_decay": decay}
        for (lr, decay), parameters in sorted_out.items()
    ]
    if preset.optimizer == "sgd":
        return torch.optim.SGD(groups, lr=preset.lr, momentum=preset.momentum)
    if preset.optimizer in ("adam", "adamw"):
        kind = torch.optim.Adam if preset.optimizer == "adam" else torch.optim.AdamW
        return kind(groups, lr=preset.lr, betas=preset.betas, eps=preset.eps)
    raise ValueError(f"no optimizer {preset.optimizer!r}; available: sgd, adam, adamw.")


def _of_upsamplers(model: nn.Module) -> dict[str, str]:
    """The place of the upsampler a parameter belongs to. A pattern looks at that alone: what an upsampler calls its
    layers, such as the content_encoder of CARAFE, must not set its learning rate."""
    upsamplers = [(path, module) for path, module in model.named_modules() if isinstance(module, Upsampler)]
    return {f"{path}.{name}": f"{path}." for path, module in upsamplers for name, _ in module.named_parameters()}


def _of_norms(model: nn.Module) -> set[str]:
    found = set()
    for path, module in model.named_modules():
        for name, _ in module.named_parameters(prefix=path, recurse=False):
            if isinstance(module, NORMS) or "position" in name:
                found.add(name)
    return found


def rate(preset: Preset, step: int, steps: int) -> float:
    """The part of the learning rate that holds in a step."""
    done = step / max(1, steps)
    if preset.schedule not in SCHEDULES:
        raise ValueError(f"no schedule {preset.schedule!r}; available: {', '.join(SCHEDULES)}.")
    if preset.schedule == "poly":
        part = (1 - done) ** preset.power
    elif preset.schedule == "cosine":
        part = (1 + cos(pi * done)) / 2
    else:
        part = 0.1 ** sum(done >= milestone for milestone in preset.milestones)
    if preset.schedule in ("poly", "cosine"):
        part = preset.floor + (1 - preset.floor) * part
    if step < preset.warmup:
        part *= preset.warmup_from + (1 - preset.warmup_from) * step / preset.warmup
    return part


def set_rate(optimizer: Any, part: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = group["base"] * part
