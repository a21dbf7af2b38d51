"""Scenes drawn on the spot, with exact truth for every task: nothing to download."""

import numpy as np
import torch
from scipy.ndimage import gaussian_filter
from torchvision import tv_tensors

from sapa.checks import one_of
from sapa.tasks.data.geometry import compose
from sapa.tasks.data.sample import Data, Sample
from sapa.tasks.data.scenes.canvas import Canvas
from sapa.tasks.data.scenes.hair import draw_matte
from sapa.tasks.data.scenes.room import draw_room
from sapa.tasks.data.scenes.texture import Random
from sapa.tasks.data.scenes.things import BALL, CLASSES, COUNTED
from sapa.tasks.data.trimap import make_trimap

__all__ = ["Scenes"]

# of a thing, in pixels; of what is hidden more than that nobody can say what it is
LEAST_SEEN = 12
KINDS = {"segmentation": CLASSES, "detection": COUNTED, "depth": None, "matting": None}


class Scenes(Data):
    """Rooms with thin, textured, soft and hidden things. Sample i depends on the seed and on i alone.

    Args:
        task: segmentation, detection, depth or matting.
        length: how many.
        size: (H, W).
        seed: of all of them; two seeds share no scene.
    """

    def __init__(self, task: str, length: int, size: tuple[int, int] = (96, 128), seed: int = 0) -> None:
        one_of("Scenes", "task", task, KINDS)
        super().__init__([f"scene {seed}-{i}" for i in range(length)], KINDS[task])
        self.task, self.size, self.seed = task, size, seed

    def __getitem__(self, i: int) -> Sample:
        if not 0 <= i < len(self):
            raise IndexError(f"there is no scene {i}: there are {len(self)}.")
        random = np.random.default_rng((self.seed, i))
        if self.task == "matting":
            return self._matte(random, i)
        canvas = draw_room(random, self.size)
        sample: Sample = {"image": _image(_photographed(random, canvas.colours))}
        if self.task == "segmentation":
            sample["mask"] = tv_tensors.Mask(torch.from_numpy(canvas.labels))
        elif self.task == "depth":
            sample["depth"] = tv_tensors.Mask(torch.from_numpy(canvas.depths)[None])
        else:
            sample |= _boxes(canvas) | {"image_id": i}
        return sample | {"name": self.names[i]}

    def _matte(self, random: Random, i: int) -> Sample:
        behind = _photographed(random, draw_room(random, self.size, (0, 3)).colours)
        fg, alpha = draw_matte(random, self.size)
        layers = {
            "alpha": _image(alpha[..., None]),
            "fg": _image(np.clip(fg, 0, 1)),
            "bg": _image(behind),
        }
        # as wide in large pictures as in small ones
        inward, outward = random.uniform(0.01, 0.06, 2) * self.size[0]
        trimap = make_trimap(layers["alpha"], inward, outward)
        return {
            "image": compose(layers["fg"], layers["bg"], layers["alpha"]),
            **layers,
            "trimap": trimap,
            "name": self.names[i],
        }


def _photographed(random: Random, colours: np.ndarray) -> np.ndarray:
    """Through a lens that is out of focus in a third of the pictures, onto a sensor with some noise."""
    if random.uniform() < 0.35:
        sigma = random.uniform(0.4, 1.1)
        colours = gaussian_filter(colours, (sigma, sigma, 0), truncate=3)
    grain = random.uniform(0, 0.03) * random.standard_normal(colours.shape, np.float32)
    return np.clip(colours * random.uniform(0.8, 1.15) + grain, 0, 1)


def _image(planes: np.ndarray) -> tv_tensors.Image:
    """[H, W, c] as [c, H, W]."""
    return tv_tensors.Image(torch.from_numpy(np.ascontiguousarray(planes.transpose(2, 0, 1), np.float32)))


def _boxes(canvas: Canvas) -> Sample:
    """Around what one sees of each thing."""
    boxes, labels, areas = [], [], []
    for i in range(1, int(canvas.objects.max()) + 1):
        seen = canvas.objects == i
        rows, columns = np.flatnonzero(seen.any(1)), np.flatnonzero(seen.any(0))
        area = int(seen.sum())
        if area >= LEAST_SEEN:
            boxes.append((columns[0], rows[0], columns[-1] + 1, rows[-1] + 1))
            labels.append(canvas.labels[seen][0] - BALL)
            areas.append(area)
    places = torch.from_numpy(np.array(boxes, np.float32).reshape(-1, 4))
    return {
        "boxes": tv_tensors.BoundingBoxes(places, format="XYXY", canvas_size=canvas.labels.shape),  # type: ignore[call-overload]
        "labels": torch.tensor([int(label) for label in labels], dtype=torch.int64),
        "crowd": torch.zeros(len(labels), dtype=torch.bool),
        "area": torch.tensor(areas, dtype=torch.float32),
    }
