"""Colours and patterns."""

from colorsys import hsv_to_rgb
from functools import cache

import numpy as np

Random = np.random.Generator
TILE = 512


@cache
def tile() -> np.ndarray:
    """Noise of several octaves [512, 512] of mean 0 and deviation 1, without seams. It is the same for all scenes, each
    of which takes its own part of it: to draw it anew would cost more than all else."""
    random = np.random.default_rng(0)
    y, x = np.meshgrid(np.fft.fftfreq(TILE), np.fft.rfftfreq(TILE), indexing="ij")
    radius = np.hypot(y, x)
    radius[0, 0] = np.inf
    # between the noise of clouds and that of sand
    spectrum = np.fft.rfft2(random.standard_normal((TILE, TILE))) / radius**1.1
    noise = np.fft.irfft2(spectrum, s=(TILE, TILE))
    return ((noise - noise.mean()) / noise.std()).astype(np.float32)


def noise(random: Random, y: np.ndarray, x: np.ndarray, grain: float) -> np.ndarray:
    """Noise at places y, x that broadcast; the larger the grain, the finer."""
    rows, columns = (np.asarray(axis * grain + random.integers(TILE)).astype(np.int32) % TILE for axis in (y, x))
    return tile()[rows, columns]


def pattern(random: Random, y: np.ndarray, x: np.ndarray, period: float) -> np.ndarray:
    """About -1 ... 1: noise, stripes, checks or dots, with this period."""
    kind = random.integers(5)
    if kind < 2:
        return 0.6 * noise(random, y, x, random.uniform(1, 4))
    angle, k = random.uniform(0, np.pi), np.float32(2 * np.pi / period)
    c, s = np.float32(np.cos(angle)), np.float32(np.sin(angle))
    u, v = k * (c * x + s * y), k * (c * y - s * x)
    if kind == 2:
        return np.sin(u)
    if kind == 3:
        return np.tanh(4 * np.sin(u) * np.sin(v))
    return np.tanh(3 * (np.cos(u) + np.cos(v) - 0.6))


def hue(
    random: Random, saturation: tuple[float, float] = (0.3, 0.85), value: tuple[float, float] = (0.35, 0.95)
) -> np.ndarray:
    """A colour [3]."""
    return np.array(hsv_to_rgb(random.uniform(), random.uniform(*saturation), random.uniform(*value)), np.float32)


def coloured(random: Random, base: np.ndarray, strength: np.ndarray | float) -> np.ndarray:
    """[..., 3] around a colour, lighter and darker, and a little towards another one."""
    towards = 0.5 * (hue(random) - base) + random.uniform(0.1, 0.35)
    return base + np.asarray(strength)[..., None] * towards
