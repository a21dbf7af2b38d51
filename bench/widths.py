"""How wide the kernels of SAPA are before and after training: how many points the entropy of their weights stands for.

A box of K*K points has the width K*K, nearest has 1, and bilinear at twice the size about 3.1.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from sapa.nn import SAPA
from sapa.tasks import checkpoint, load
from sapa.tasks.engine import build_model
from sapa.tasks.loading import evaluation_batches
from sapa.tasks.presets import from_json
from sapa.tasks.spec import parse

BATCHES = 2


def of_run(folder: Path) -> dict[str, list[float]]:
    """Of each step of the decoder, from the smallest map on: at the start, and at the end of the run in a folder."""
    about = checkpoint.read_json(folder / checkpoint.RUN)
    preset = from_json(about["preset"])
    task = load(about["task"])(preset, about["classes"])
    data = type(task).data(preset, about["data"], "val")
    given = (data, task.augment(False), task.collate, task.evaluation_batch(), 0)
    batches = [batch for batch, _ in zip(evaluation_batches(*given), range(BATCHES), strict=False)]
    model = build_model(task, parse(about["upsampler"]), about["seed"]).eval()
    start = list(widths(task, model, batches))
    model.load_state_dict(checkpoint.weights_in(folder))
    return {"start": start, "end": list(widths(task, model.eval(), batches))}


def widths(task: Any, model: nn.Module, batches: list[dict[str, Any]]) -> Iterator[float]:
    found: dict[nn.Module, list[Tensor]] = {}

    def look(module: Any, inputs: Any) -> None:
        x, guide = inputs
        found.setdefault(module, []).append(width(module.kernels(x, guide)))

    steps = [module for module in model.modules() if isinstance(module, SAPA)]
    hooks = [module.register_forward_pre_hook(look) for module in steps]
    with torch.no_grad():
        for batch in batches:
            task.predict(model, batch)
    for hook in hooks:
        hook.remove()
    return (float(torch.stack(found[module]).mean()) for module in steps)


def width(w: Tensor) -> Tensor:
    """Weights [B, P, H, W] to the mean over points of exp(entropy)."""
    return torch.special.entr(w).sum(1).exp().mean()
