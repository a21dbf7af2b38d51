"""A room seen through a camera: a wall, a floor, things that stand on it, and fences and cables in front of them."""

from dataclasses import dataclass

import numpy as np

from sapa.tasks.data.scenes.canvas import Canvas
from sapa.tasks.data.scenes.texture import Random, coloured, hue, noise, pattern
from sapa.tasks.data.scenes.things import FLOOR, THINGS, WALL, cable, fence

# of the things, in metres: fences and cables are nearer, the wall is farther than all of any thing
NEAREST = 2.5
# saturation and value of what is behind
MUTED = (0.1, 0.5), (0.35, 0.9)


@dataclass(frozen=True)
class Camera:
    """x = centre + focal * X / Z and y = horizon + focal * (height - Y) / Z, in pixels and metres."""

    focal: float
    centre: float
    horizon: float
    height: float

    def project(self, X: float, Y: float, Z: float) -> tuple[float, float]:
        return self.centre + self.focal * X / Z, self.horizon + self.focal * (self.height - Y) / Z


def draw_room(random: Random, size: tuple[int, int], things: tuple[int, int] = (4, 9)) -> Canvas:
    """Wall and floor, a number of things from the farthest to the nearest, then what hangs or stands before them."""
    H, W = size
    canvas = Canvas.blank(size)
    camera = Camera(H * random.uniform(0.9, 1.2), W / 2, H * random.uniform(0.3, 0.45), random.uniform(1.2, 1.6))
    far = random.uniform(5.5, 9.0)
    _wall_and_floor(canvas, camera, random, far)
    number = int(random.integers(*things, endpoint=True))
    for i, Z in enumerate(np.sort(random.uniform(NEAREST, 0.75 * far, number))[::-1], start=1):
        kind = random.integers(len(THINGS))
        X = random.uniform(-0.48, 0.48) * W * Z / camera.focal
        THINGS[kind](canvas, camera, random, X, float(Z), object=i)
    if random.uniform() < 0.55:
        fence(canvas, camera, random)
    for _ in range(random.integers(3)):
        cable(canvas, camera, random)
    return canvas


def _wall_and_floor(canvas: Canvas, camera: Camera, random: Random, far: float) -> None:
    W = canvas.labels.shape[1]
    # a plane has 1 / depth linear in the picture; a wall turned away by some degrees
    inverse = (1 + random.uniform(-0.25, 0.25) * (canvas.x - camera.centre) / W) / np.float32(far)  # [1, W]
    below = np.maximum(canvas.y - camera.horizon, 1e-3) / (camera.focal * camera.height)  # [H, 1]
    is_floor = below > inverse
    canvas.labels[:] = np.where(is_floor, FLOOR, WALL)
    canvas.depths[:] = 1 / np.maximum(below, inverse)
    # only rows that show some of it, with one more for the soft edge
    ends = np.flatnonzero(is_floor.any(1))[0] - 1, np.flatnonzero(~is_floor.all(1))[-1] + 2
    wall, floor = slice(0, ends[1]), slice(max(0, ends[0]), None)
    canvas.colours[wall] = _wall(canvas, camera, random, wall)
    # how far the edge covers a row of pixels, by its distance in rows
    edge = np.clip((below[floor] - inverse) * (camera.focal * camera.height) + 0.5, 0, 1)[..., None]
    under = canvas.colours[floor]
    under += edge * (_floor(canvas, camera, random, floor) - under)
    # darker towards the corner where the two meet
    canvas.colours *= (1 - 0.35 * np.exp(-np.abs(below - inverse) * (4 * far)))[..., None]


def _wall(canvas: Canvas, camera: Camera, random: Random, rows: slice) -> np.ndarray:
    y, Z = canvas.y[rows], canvas.depths[rows]
    X, Y = (canvas.x - camera.centre) * Z / camera.focal, camera.height - (y - camera.horizon) * Z / camera.focal
    paper = 0.36 * pattern(random, Y, X, random.uniform(0.35, 0.9)) + 0.24 * noise(random, y, canvas.x, 1)
    return coloured(random, hue(random, *MUTED), paper)


def _floor(canvas: Canvas, camera: Camera, random: Random, rows: slice) -> np.ndarray:
    y, Z, period = canvas.y[rows], canvas.depths[rows], random.uniform(0.3, 0.7)
    X = (canvas.x - camera.centre) * Z / camera.focal
    # a pattern finer than the pixels fades, as it would through a lens
    fade = np.clip(camera.focal * period / 6 / Z, 0, 0.7)
    tiles = fade * pattern(random, Z, X, period) + 0.35 * noise(random, y, canvas.x, random.uniform(0.7, 2))
    return coloured(random, hue(random, *MUTED), 0.6 * tiles)
