"""The picture of docs/data.md: scenes of the built-in data with their truths. `python -m bench.scenes`."""

from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageDraw
from torch import Tensor

from sapa.tasks.data import Scenes

PATH = Path(__file__).parents[1] / "docs" / "img" / "scenes.jpg"
SIZE, ROWS, GAP = (144, 192), (10, 12, 24, 15), 4
# of the classes, in their order
COLOURS = np.array(
    [
        *([203, 201, 192], [151, 122, 92], [222, 67, 60], [62, 110, 220], [42, 160, 82]),
        *([238, 176, 40], [150, 70, 190], [30, 30, 34], [20, 190, 200]),
    ],
    np.uint8,
)


def main() -> None:
    rows = [np.concatenate(panels(i), axis=1) for i in ROWS]
    sheet = np.concatenate([np.pad(row, ((0, GAP), (0, 0), (0, 0)), constant_values=255) for row in rows])[:-GAP, :-GAP]
    Image.fromarray(sheet).save(PATH, quality=88, optimize=True)


def panels(i: int) -> list[np.ndarray]:
    """The picture, classes, boxes, depth, and a matte with its trimap."""
    sample = {task: Scenes(task, i + 1, SIZE)[i] for task in ("segmentation", "detection", "depth", "matting")}
    matting, depth = sample["matting"], sample["depth"]["depth"]
    boxes = Image.fromarray(pixels(sample["detection"]["image"]))
    for box in sample["detection"]["boxes"].tolist():
        ImageDraw.Draw(boxes).rectangle((*box[:2], box[2] - 1, box[3] - 1), outline=(255, 235, 0))
    found = [
        pixels(sample["segmentation"]["image"]),
        COLOURS[sample["segmentation"]["mask"].numpy()],
        np.asarray(boxes),
        pixels(1 - depth / depth.max()),
        pixels(matting["image"]),
        pixels(matting["alpha"]),
        pixels(matting["trimap"]),
    ]
    return [np.pad(panel, ((0, 0), (0, GAP), (0, 0)), constant_values=255) for panel in found]


def pixels(x: Tensor) -> np.ndarray:
    """[c, H, W] in 0..1 as [H, W, 3] of bytes."""
    planes = x.as_subclass(Tensor).expand(3, -1, -1).permute(1, 2, 0)
    return (planes.clamp(0, 1) * 255).round().to(torch.uint8).numpy()


if __name__ == "__main__":
    main()
