"""Something to cut out: opaque inside, with hair, a soft side, a veil and holes."""

import numpy as np

from sapa.tasks.data.scenes.texture import Random, coloured, hue, noise, pattern


def draw_matte(random: Random, size: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Colours [H, W, 3] and alpha [H, W]."""
    H, W = size
    y, x = np.arange(H, dtype=np.float32)[:, None] + 0.5, np.arange(W, dtype=np.float32)[None] + 0.5
    r = H * random.uniform(0.16, 0.28)
    cy, cx = H * random.uniform(0.4, 0.6), W * random.uniform(0.35, 0.65)
    dy, dx = y - cy, x - cx
    radius, angle = np.hypot(dy, dx), np.arctan2(dy, dx)
    waves = [random.uniform(-0.12, 0.12) * np.sin(n * angle + random.uniform(0, 6)) for n in (1, 2, 3, 5)]
    outline = r * (1 + np.sum(waves, axis=0))
    # sharp on one side and out of focus on the other
    softness = 1 + 0.12 * H * random.uniform(0.2, 1) * (0.5 + 0.5 * np.cos(angle - random.uniform(0, 6))) ** 3
    alpha = np.clip(0.5 - (radius - outline) / softness, 0, 1)
    alpha = np.maximum(alpha, _hair(random, radius, angle, outline))
    if random.uniform() < 0.6:
        alpha = np.maximum(alpha, _veil(random, y, x, cy, cx, r))
    for _ in range(random.integers(3)):
        hy, hx = (c + random.uniform(-0.5, 0.5) * r for c in (cy, cx))
        alpha = np.minimum(alpha, np.clip(0.5 + np.hypot(y - hy, x - hx) - r * random.uniform(0.08, 0.25), 0, 1))
    shade = 0.8 - 0.35 * np.clip((dx * 0.6 + dy) / (2 * r), -1, 1)
    grain = 0.4 * pattern(random, dy / r, dx / r, random.uniform(0.2, 0.8)) + 0.2 * noise(random, y, x, 2)
    return coloured(random, hue(random), grain) * shade[..., None], alpha


def _hair(random: Random, radius: np.ndarray, angle: np.ndarray, outline: np.ndarray) -> np.ndarray:
    """Curved strands, which grow thinner towards their ends: below a pixel they are partly transparent."""
    number = int(random.integers(30, 90))
    # angles turn with the radius, so that strands bend; one that is a whole number of strands stays without a seam
    bent = angle + random.uniform(-1, 1) * np.log(np.maximum(radius, 1) / outline.mean())
    bent = bent + 0.12 * np.sin(radius / outline.mean() * random.uniform(3, 8) + 3 * angle)
    place = (bent / (2 * np.pi)) % 1 * number
    strand = place.astype(np.int32) % number
    lengths = outline.mean() * random.uniform(0.15, 1.0, number).astype(np.float32)
    widths = random.uniform(0.35, 1.1, number).astype(np.float32)
    offsets = random.uniform(0.25, 0.75, number).astype(np.float32)
    beyond = (radius - outline) / lengths[strand]
    across = np.abs(place - np.floor(place) - offsets[strand]) * 2 * np.pi * radius / number
    half = widths[strand] * np.clip(1 - beyond, 0, 1) ** 0.6
    # the part of a pixel that a strand of this width covers
    coverage = np.clip(np.minimum(half + 0.5 - across, 2 * half), 0, 1)
    return np.where(beyond < 1, coverage, 0)


def _veil(random: Random, y: np.ndarray, x: np.ndarray, cy: float, cx: float, r: float) -> np.ndarray:
    """Smoke, or a cloth one sees through."""
    top, drift = cy + random.uniform(-0.3, 0.3) * r, random.uniform(-0.8, 0.8)
    width = r * random.uniform(0.5, 1.0) + 0.25 * np.abs(y - top)
    across = np.abs(x - cx - drift * (y - top)) / width
    folds = 0.5 + 0.3 * np.sin(9 * (x - drift * y) / width + random.uniform(0, 6)) + 0.15 * noise(random, y, x, 0.7)
    falls = np.clip((y - top) / r, 0, 1) * np.clip(1.4 - 0.4 * (y - top) / r, 0, 1)
    return np.clip(folds * falls * np.clip(3 * (1 - across), 0, 1), 0, 0.9)
