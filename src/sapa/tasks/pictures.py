"""Predictions to look at: a few samples of the evaluation, each as a row of pictures."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from accelerate.utils import send_to_device
from PIL import Image
from torch import Tensor, nn

from sapa.files import atomic
from sapa.tasks.loading import generator
from sapa.tasks.streaming import length_of
from sapa.tasks.task import Batch, Task

FOLDER, COUNT = "pictures", 4

# the classes of label maps, far enough from each other to be told apart; more than these begin anew
COLOURS = np.array(
    [
        *[(78, 121, 167), (242, 142, 43), (225, 87, 89), (118, 183, 178), (89, 161, 79), (237, 201, 72)],
        *[(176, 122, 161), (255, 157, 167), (156, 117, 95), (186, 176, 172), (44, 62, 102), (140, 209, 125)],
        *[(134, 188, 182), (182, 64, 74), (72, 72, 72), (214, 196, 255), (60, 130, 60), (250, 220, 190)],
    ],
    dtype=np.float32,
)


def write_pictures(task: Task, model: nn.Module, data: Any, folder: Path, device: torch.device) -> None:
    """Write `pictures/0-truth.webp` and so on for a few samples, spread over the data."""
    home = folder / FOLDER
    home.mkdir(exist_ok=True)
    model.eval()
    prepare = task.augment(False)
    for i, sample in enumerate(_some(data)):
        batch = task.collate([prepare(sample, generator(0, i))])
        there = cast(Batch, send_to_device(batch, device))
        with torch.no_grad():
            found = task.pictures(task.predict(model, there), there, 0)
        for j, (name, pixels) in enumerate(found.items()):
            with atomic.replacing(home / f"{i}-{j}-{name}.webp") as part:
                image = Image.fromarray(
                    (pixels.detach().cpu().clamp(0, 1) * 255).round().byte().permute(1, 2, 0).numpy()
                )
                image.save(part, "WEBP", quality=88)


def read_pictures(folder: Path) -> list[dict[str, Path]]:
    """For each sample the files of its pictures, by name and in order."""
    rows: dict[int, dict[str, Path]] = {}
    for path in sorted((folder / FOLDER).glob("*.webp")):
        i, _, name = path.stem.split("-", 2)
        rows.setdefault(int(i), {})[name] = path
    return [rows[i] for i in sorted(rows)]


def paint(labels: Tensor, ignore: int = 255) -> Tensor:
    """Label maps [H, W] in colours [3, H, W]; what is ignored is white."""
    colours = torch.from_numpy(COLOURS).to(labels.device) / 255
    pixels = colours[labels.clamp_min(0) % len(colours)]
    return torch.where((labels == ignore)[..., None], torch.ones_like(pixels), pixels).permute(2, 0, 1)


def ramp(values: Tensor, high: float) -> Tensor:
    """Values [H, W] from 0 to `high` in colours [3, H, W], dark to light."""
    anchors = torch.tensor(RAMP, device=values.device) / 255
    place = (values / high).clamp(0, 1) * (len(anchors) - 1)
    below = place.long().clamp_max(len(anchors) - 2)
    return torch.lerp(anchors[below], anchors[below + 1], (place - below)[..., None]).permute(2, 0, 1)


RAMP = ((22, 20, 58), (40, 58, 110), (38, 103, 132), (55, 147, 138), (118, 189, 128), (199, 222, 124), (253, 246, 190))


def _some(data: Any) -> Iterator[Any]:
    """Samples spread over the data, or the first of a stream."""
    length = length_of(data)
    if length is None:
        return islice(iter(data), COUNT)
    count = min(COUNT, length)
    return (data[i * length // count] for i in range(count))
