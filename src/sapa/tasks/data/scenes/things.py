"""What there is in a room. Each shape is a signed distance in pixels, so that its edge is exact at any size."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np

from sapa.tasks.data.scenes.canvas import Canvas
from sapa.tasks.data.scenes.texture import Random, coloured, hue, pattern

if TYPE_CHECKING:
    from sapa.tasks.data.scenes.room import Camera

WALL, FLOOR, BALL, BOX, PLANT, RING, LAMP, FENCE, CABLE = range(9)
CLASSES = ["wall", "floor", "ball", "box", "plant", "ring", "lamp", "fence", "cable"]
COUNTED = ["ball", "box", "plant", "ring", "lamp"]


class Thing(Protocol):
    def __call__(
        self, canvas: Canvas, camera: "Camera", random: Random, X: float, Z: float, *, object: int
    ) -> None: ...


def shadow(canvas: Canvas, camera: "Camera", X: float, Z: float, radius: float) -> None:
    """Soft, on the floor below a thing."""
    x, y = camera.project(X, 0, Z)
    a = 1.3 * radius * camera.focal / Z
    b = max(1.0, 0.3 * a)
    at = canvas.window(x - a, y - b, x + a, y + b)
    r = ((canvas.x[:, at[1]] - x) / a) ** 2 + ((canvas.y[at[0]] - y) / b) ** 2
    canvas.darken(at, 0.55 * np.clip(1 - r, 0, 1))


def ball(canvas: Canvas, camera: "Camera", random: Random, X: float, Z: float, *, object: int) -> None:
    R = random.uniform(0.15, 0.5)
    shadow(canvas, camera, X, Z, R)
    (x, y), r = camera.project(X, R, Z), R * camera.focal / Z
    at = canvas.window(x - r, y - r, x + r, y + r)
    dx, dy = (canvas.x[:, at[1]] - x) / r, (canvas.y[at[0]] - y) / r
    d2 = dx**2 + dy**2
    bulge = np.sqrt(np.maximum(1 - d2, 0))
    light = 0.35 + 0.75 * np.clip(-0.5 * dx - 0.6 * dy + 0.62 * bulge, 0, 1)
    body = coloured(random, hue(random), 0.5 * pattern(random, dy, dx, random.uniform(0.3, 0.9))) * light[..., None]
    gloss = 0.5 * np.clip(1 - ((dx + 0.35) ** 2 + (dy + 0.4) ** 2) * 14, 0, 1)
    canvas.paint(at, (np.sqrt(d2) - 1) * r, body + gloss[..., None], (Z - R * bulge).astype(np.float32), BALL, object)


def box(canvas: Canvas, camera: "Camera", random: Random, X: float, Z: float, *, object: int) -> None:
    """Two sides that run away from the near edge, and what one sees of the top."""
    side, tall, turn = random.uniform(0.3, 0.7), random.uniform(0.3, 0.9), random.uniform(0.3, 1.2)
    shadow(canvas, camera, X, Z, 0.8 * side)
    (Xl, Zl), (Xr, Zr) = (
        (X + s * side * np.cos(t), Z + side * np.sin(t)) for s, t in ((-1, turn), (1, np.pi / 2 - turn))
    )
    feet = (X, Z), (Xl, Zl), (Xl + Xr - X, Zl + Zr - Z), (Xr, Zr)
    low, high = ([camera.project(A, Y, C) for A, C in feet] for Y in (0, tall))
    corners = [*low[:2], low[3], *high]
    at = canvas.window(*(f(corner[i] for corner in corners) for f, i in ((min, 0), (min, 1), (max, 0), (max, 1))))
    y, x = canvas.y[at[0]], canvas.x[:, at[1]]
    faces = ((low[0], high[0], high[1], low[1]), (low[3], high[3], high[0], low[0]), high)
    distances = np.stack([_to_polygon(y, x, face) for face in faces])
    nearest = distances.argmin(0)
    depths = np.stack(
        [_between(x, low[0][0], Z, low[1][0], Zl) + 0 * y, _between(x, low[0][0], Z, low[3][0], Zr) + 0 * y]
    )
    top = camera.focal * (camera.height - tall) / np.maximum(y - camera.horizon, 1e-3) + 0 * x
    depth = np.where(nearest == 2, top, np.where(nearest == 1, depths[1], depths[0]))
    grain = 0.4 * pattern(random, y / camera.focal * Z, x / camera.focal * Z, random.uniform(0.08, 0.3))
    light = np.array([1.0, 0.6, 1.25], np.float32)[nearest]
    colour = coloured(random, hue(random), grain) * light[..., None]
    canvas.paint(at, distances.min(0), colour, np.clip(depth, Z, feet[2][1]).astype(np.float32), BOX, object)


def _to_polygon(y: np.ndarray, x: np.ndarray, corners: Sequence[tuple[float, float]]) -> np.ndarray:
    """Of a convex polygon, clockwise or not."""
    edges = list(zip(corners, (*corners[1:], corners[0]), strict=True))
    turn = np.sign(sum(xa * yb - xb * ya for (xa, ya), (xb, yb) in edges))
    found = np.full((y.shape[0], x.shape[1]), -np.inf, np.float32)
    for (xa, ya), (xb, yb) in edges:
        length = turn * (np.hypot(xb - xa, yb - ya) or 1)
        np.maximum(found, ((yb - ya) / length) * (x - xa) - ((xb - xa) / length) * (y - ya), out=found)
    return found


def _between(x: np.ndarray, xa: float, Za: float, xb: float, Zb: float) -> np.ndarray:
    """The depth on an upright plane, from those at two places: 1 / depth is linear in the picture."""
    along = (x - xa) / ((xb - xa) or 1e-6)
    return 1 / (1 / Za + np.clip(along, 0, 1) * (1 / Zb - 1 / Za))


def plant(canvas: Canvas, camera: "Camera", random: Random, X: float, Z: float, *, object: int) -> None:
    """Leaves around a point on a stem that is a pixel or two wide."""
    R, tall = random.uniform(0.2, 0.45), random.uniform(0.5, 1.1)
    shadow(canvas, camera, X, Z, 0.4 * R)
    (x, top), (_, ground), scale = camera.project(X, tall, Z), camera.project(X, 0, Z), camera.focal / Z
    width, bend = max(0.9, 0.025 * scale), random.uniform(-0.15, 0.15) * scale
    stem = coloured(random, hue(random), random.uniform(-0.5, 0.5))
    at = canvas.window(x - width - abs(bend), top, x + width + abs(bend), ground)
    along = (canvas.y[at[0]] - top) / (ground - top)
    across = np.abs(canvas.x[:, at[1]] - x - 4 * bend * along * (1 - along)) - width / 2
    canvas.paint(at, np.maximum(across, canvas.y[at[0]] - ground), stem, Z, PLANT, object)
    r, lobes = R * scale, int(random.integers(4, 10))
    at = canvas.window(x - r, top - r, x + r, top + r)
    dx, dy = canvas.x[:, at[1]] - x, canvas.y[at[0]] - top
    radius, angle = np.hypot(dx, dy), np.arctan2(dy, dx)
    depth_of_lobes = random.uniform(0.25, 0.42)
    wave = np.abs(np.sin(0.5 * (lobes * angle + random.uniform(0, 6))))
    outline = r * (1 - depth_of_lobes * 2 * wave * (1 - 0.15 * np.cos(angle * 3)))
    # across the outline rather than along the ray, where it is steep
    steep = np.hypot(1, depth_of_lobes * lobes * r / np.maximum(radius, 0.3 * r) * np.cos(0.5 * lobes * angle))
    leaf = pattern(random, dy / r, dx / r, 0.25) * 0.4 + 0.5 * (1 - radius / r) - 0.2
    canvas.paint(at, (radius - outline) / steep, coloured(random, hue(random), leaf), Z, PLANT, object)


def ring(canvas: Canvas, camera: "Camera", random: Random, X: float, Z: float, *, object: int) -> None:
    """Through which one sees what is behind."""
    R = random.uniform(0.2, 0.5)
    shadow(canvas, camera, X, Z, 0.5 * R)
    (x, y), r = camera.project(X, R, Z), R * camera.focal / Z
    half = max(0.6, r * random.uniform(0.04, 0.14))
    at = canvas.window(x - r - half, y - r - half, x + r + half, y + r + half)
    dx, dy = canvas.x[:, at[1]] - x, canvas.y[at[0]] - y
    bands = np.sin(np.arctan2(dy, dx) * random.integers(2, 9)) * 0.5
    canvas.paint(at, np.abs(np.hypot(dx, dy) - r) - half, coloured(random, hue(random), bands), Z, RING, object)


def lamp(canvas: Canvas, camera: "Camera", random: Random, X: float, Z: float, *, object: int) -> None:
    """A thin pole with a shade."""
    tall, shade = random.uniform(0.9, 1.7), random.uniform(0.12, 0.25)
    shadow(canvas, camera, X, Z, 0.15)
    (x, top), (_, ground), scale = camera.project(X, tall, Z), camera.project(X, 0, Z), camera.focal / Z
    half = max(0.45, 0.016 * scale)
    at = canvas.window(x - half, top, x + half, ground)
    pole = np.maximum(np.abs(canvas.x[:, at[1]] - x) - half, canvas.y[at[0]] - ground)
    canvas.paint(at, pole, coloured(random, hue(random), random.uniform(-1, 1)), Z, LAMP, object)
    r = shade * scale
    at = canvas.window(x - 1.4 * r, top - r, x + 1.4 * r, top + r)
    dx, dy = np.abs(canvas.x[:, at[1]] - x), canvas.y[at[0]] - top
    # wider below than above
    distance = np.maximum(np.abs(dy) - r, (dx - 0.95 * r - 0.45 * dy) / np.hypot(1, 0.45))
    glow = 0.8 - 0.5 * np.clip(dx / (1.4 * r), 0, 1) + 0 * dy
    canvas.paint(at, distance, coloured(random, hue(random, (0.2, 0.6), (0.6, 1.0)), glow), Z, LAMP, object)


THINGS: tuple[Thing, ...] = (ball, box, plant, ring, lamp)


def fence(canvas: Canvas, camera: "Camera", random: Random) -> None:
    """Bars or a net, one or two pixels wide, on a plane that runs away to one side."""
    W = canvas.labels.shape[1]
    Z, tilt = random.uniform(1.35, 1.65), random.uniform(-0.3, 0.3)
    inverse = (1 + tilt * (canvas.x - camera.centre) / W) / Z  # [1, W]
    tall, period, half = random.uniform(0.75, 1.2), random.uniform(0.08, 0.18), random.uniform(0.4, 0.9)
    scale = camera.focal * inverse
    foot = camera.horizon + camera.height * scale
    top = foot - tall * scale
    span = np.sort(random.uniform(0, W, 2)) if random.uniform() < 0.6 else np.array([0.0, W])
    if span[1] - span[0] < 0.3 * W:
        span = np.array([0.0, W])
    y, x = canvas.y, canvas.x
    u = (x - camera.centre) / scale + random.uniform(0, period)  # metres along
    v = (y - top) / scale
    if random.uniform() < 0.5:
        lines = _to_line(u, period) * scale + 0 * y
    else:
        lines = np.minimum(_to_line(u + v, period), _to_line(u - v, period)) * scale * np.float32(0.707)
    rails = np.minimum(np.abs(y - top), np.abs(y - top - 0.8 * tall * scale)) - half * 0.4
    distance = np.maximum(np.minimum(lines, rails) - half, np.maximum(top - y - half, y - foot))
    distance = np.maximum(distance, np.maximum(span[0] - x, x - span[1]))
    colour = coloured(random, hue(random, (0.0, 0.5)), 0.3 * pattern(random, y, x, 9.0))
    canvas.paint((slice(None), slice(None)), distance, colour, (1 / inverse + 0 * y).astype(np.float32), FENCE, -1)


def _to_line(along: np.ndarray, period: float) -> np.ndarray:
    return np.abs((along / period) % 1 - 0.5) * period


def cable(canvas: Canvas, camera: "Camera", random: Random) -> None:
    """From one side to the other, a pixel or so wide, sagging."""
    H, W = canvas.labels.shape
    Z, half = random.uniform(0.8, 1.1), random.uniform(0.4, 0.8)
    start, end, sag = random.uniform(0, 0.5) * H, random.uniform(0, 0.5) * H, random.uniform(0.05, 0.4) * H
    t = canvas.x / W
    line = start + t * (end - start) + 4 * sag * t * (1 - t)
    slope = (end - start + 4 * sag * (1 - 2 * t)) / W
    at = canvas.window(0, line.min() - 2, W, line.max() + 2)
    distance = np.abs(canvas.y[at[0]] - line) / np.hypot(1, slope) - half
    canvas.paint(at, distance, hue(random, (0.0, 0.4), (0.05, 0.9)), Z, CABLE, -1)
