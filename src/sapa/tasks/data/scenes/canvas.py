"""A picture in the making: colours, labels, objects and depths, painted from back to front."""

from dataclasses import dataclass

import numpy as np

Window = tuple[slice, slice]


@dataclass
class Canvas:
    """[H, W] each, colours [H, W, 3]; y [H, 1] and x [1, W] are the centres of the pixels."""

    colours: np.ndarray
    labels: np.ndarray
    objects: np.ndarray
    depths: np.ndarray
    y: np.ndarray
    x: np.ndarray

    @classmethod
    def blank(cls, size: tuple[int, int]) -> "Canvas":
        H, W = size
        y = np.arange(H, dtype=np.float32)[:, None] + np.float32(0.5)
        x = np.arange(W, dtype=np.float32)[None] + np.float32(0.5)
        planes = np.zeros((H, W), np.int64), np.zeros((H, W), np.int16), np.zeros((H, W), np.float32)
        return cls(np.zeros((H, W, 3), np.float32), *planes, y, x)

    def window(self, left: float, top: float, right: float, bottom: float) -> Window:
        """The part around a shape, with a pixel for its soft edge."""
        H, W = self.labels.shape
        rows = slice(max(0, int(top) - 1), max(0, min(H, int(bottom) + 2)))
        return rows, slice(max(0, int(left) - 1), max(0, min(W, int(right) + 2)))

    def paint(
        self, at: Window, distance: np.ndarray, colour: np.ndarray, depth: np.ndarray | float, label: int, object: int
    ) -> None:
        """A shape by the signed distance to its outline in pixels, below 0 inside: colours cover a pixel by the part
        of it that lies inside, labels and depths where its centre does."""
        coverage = np.clip(0.5 - distance, 0, 1)[..., None]
        under = self.colours[at]
        under += coverage * (colour - under)
        inside = distance < 0
        self.labels[at][inside] = label
        self.objects[at][inside] = object
        self.depths[at][inside] = depth[inside] if isinstance(depth, np.ndarray) else depth

    def darken(self, at: Window, coverage: np.ndarray) -> None:
        """A shadow."""
        self.colours[at] *= 1 - coverage[..., None]
