"""The augmentations of the published protocols, drawn from a generator and done to all of a sample."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from sapa.checks import one_of
from sapa.tasks.data.colour import COLOURS, recolour
from sapa.tasks.data.draw import Draw
from sapa.tasks.data.geometry import SMOOTH, Size, crop, flip, resize, rotate, size_of
from sapa.tasks.data.sample import IGNORE, Sample
from sapa.tasks.data.trimap import make_trimap

TASKS = ("segmentation", "detection", "depth", "matting")
EVALUATE = ("resize", "whole")
# how often a crop is drawn again that shows too much of one class
TRIES = 10


@dataclass(frozen=True)
class Augment:
    """A sample in, a sample out. Fields as in `augment`."""

    task: str
    size: Size | None
    train: bool
    short: int | None
    longest: int | None
    scale: tuple[float, float]
    flip: float
    rotate: float
    colour: str
    most: float
    crops: tuple[int, ...]
    trimap: tuple[float, float]
    evaluate: str

    def __call__(self, sample: Sample, generator: torch.Generator | None = None) -> Sample:
        return self._trained(sample, Draw(generator)) if self.train else self._evaluated(sample)

    def _evaluated(self, sample: Sample) -> Sample:
        view = sample.get("view")
        sample = {key: value for key, value in sample.items() if key != "view"}
        if self.evaluate == "whole":
            # truth is measured at its own size; only the model sees another, and of depth not even that
            is_kept = self.short is None or self.task == "depth"
            return sample if is_kept else resize(sample, self._base(sample), SMOOTH[:1])
        if view is not None:
            sample = crop(sample, *view)
        if self.task == "detection" or self.size is None:
            return resize(sample, self._base(sample))
        return resize(sample, self.size)

    def _trained(self, sample: Sample, draw: Draw) -> Sample:
        if self.rotate:
            sample = rotate(sample, draw.uniform(-self.rotate, self.rotate))
        if self.crops:
            sample = self._around_the_unknown(sample, draw)
        else:
            sample = self._scaled(sample, draw)
            if self.size is not None and (self.task != "detection" or self.scale != (1, 1)):
                sample = self._cropped(sample, self.size, draw)
        if draw.chance(self.flip):
            sample = flip(sample)
        if self.task == "matting":
            sample = sample | {"trimap": make_trimap(sample["alpha"], *(draw.uniform(*self.trimap) for _ in range(2)))}
        return recolour(sample, self.colour, draw)

    def _base(self, sample: Sample) -> Size:
        """The size at scale 1."""
        H, W = size_of(sample)
        if self.short is not None:
            factor = self.short / min(H, W)
            if self.longest is not None:
                factor = min(factor, self.longest / max(H, W))
        elif self.size is not None:
            # detectors need whole objects: the picture fits into the size; else it covers it
            factor = (min if self.task == "detection" else max)(self.size[0] / H, self.size[1] / W)
        else:
            factor = 1.0
        return _times(H, factor), _times(W, factor)

    def _scaled(self, sample: Sample, draw: Draw) -> Sample:
        factor = draw.uniform(*self.scale)
        H, W = self._base(sample)
        sample = resize(sample, (_times(H, factor), _times(W, factor)))
        if "depth" in sample and factor != 1:
            # what looks twice as large is half as far
            sample = sample | {"depth": sample["depth"].__class__(sample["depth"].as_subclass(Tensor) / factor)}
        return sample

    def _cropped(self, sample: Sample, size: Size, draw: Draw) -> Sample:
        room = [have - want for have, want in zip(size_of(sample), size, strict=True)]
        found = sample
        for _ in range(TRIES):
            # a picture that is too small lies anywhere in the crop
            top, left = (draw.below(abs(free) + 1) * (1 if free > 0 else -1) for free in room)
            found = crop(sample, top, left, size)
            if self.most >= 1 or "mask" not in found or _largest_share(found["mask"]) < self.most:
                break
        return found

    def _around_the_unknown(self, sample: Sample, draw: Draw) -> Sample:
        """A square of one of the sides, around a pixel that is partly transparent if there is one."""
        side = draw.one_of(self.crops)
        H, W = size_of(sample)
        if min(H, W) < side:
            factor = side / min(H, W)
            sample = resize(sample, (max(side, _times(H, factor)), max(side, _times(W, factor))))
        alpha = sample["alpha"].as_subclass(Tensor)[0]
        places = ((alpha > 0) & (alpha < 1)).nonzero()
        H, W = size_of(sample)
        y, x = places[draw.below(len(places))].tolist() if len(places) else (draw.below(H), draw.below(W))
        top, left = (min(max(at - side // 2, 0), n - side) for at, n in ((y, H), (x, W)))
        return resize(crop(sample, top, left, (side, side)), self.size or (side, side))


def _times(length: int, factor: float) -> int:
    return max(1, round(length * factor))


def _largest_share(mask: Tensor) -> float:
    """How much of what is labelled has the commonest label. 0 where nothing is, so that no crop is drawn again."""
    counts = torch.bincount(mask.as_subclass(Tensor)[mask.as_subclass(Tensor) != IGNORE].flatten())
    return float(counts.max() / counts.sum()) if len(counts) > 0 else 0.0


def augment(
    task: str,
    *,
    size: Size | None = None,
    train: bool = True,
    short: int | None = None,
    longest: int | None = None,
    scale: tuple[float, float] = (1.0, 1.0),
    flip: float = 0.5,
    rotate: float = 0.0,
    colour: str = "none",
    most: float = 1.0,
    crops: tuple[int, ...] = (),
    trimap: tuple[float, float] = (1.0, 15.0),
    evaluate: str = "resize",
) -> Callable[[Sample, torch.Generator | None], Sample]:
    """What is done to a sample, as a function of it and a generator: rotate, scale, crop, flip, colour, in this order.

    Args:
        task: segmentation, detection, depth or matting.
        size: (H, W) of the crops, and of what is evaluated.
        train: False for evaluation, where nothing is random.
        short: the shorter side at scale 1. None: as large as covers `size`, or, for detection, fits into it.
        longest: but the longer side at most this.
        scale: a factor between these two; depths are divided by it.
        flip: the share that is mirrored.
        rotate: at most so many degrees.
        colour: none, ssd or bts.
        most: a crop with a larger share of one class is drawn again, up to ten times.
        crops: for matting: squares of one of these sides around the unknown, then resized to `size`.
        trimap: for matting: radii of the disks by which trimaps are eroded, in pixels.
        evaluate: "resize" everything to `size`, or "whole": truth as it is, the image with its `short` side if given,
            but never of depth, which would look nearer or farther.

    >>> prepare = augment("segmentation", size=(512, 512), short=512, scale=(0.5, 2), colour="ssd", most=0.75)
    >>> sample = prepare(sample, torch.Generator().manual_seed(0))
    """
    one_of("augment", "task", task, TASKS)
    one_of("augment", "colour", colour, COLOURS)
    one_of("augment", "evaluate", evaluate, EVALUATE)
    if crops and task != "matting":
        raise ValueError(f"augment: crops are squares around the unknown of a trimap, and {task} has none: use scale.")
    size = None if size is None else (size[0], size[1])
    fields = (short, longest, (scale[0], scale[1]), flip, rotate, colour, most, tuple(crops), trimap, evaluate)
    return Augment(task, size, train, *fields)
