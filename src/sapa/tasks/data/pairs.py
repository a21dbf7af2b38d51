"""Images and their annotations in files of the same name: which belong together, and masks of them."""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import NamedTuple

import torch

from sapa.tasks.data.sample import IGNORE, BadSample, Data, Sample, as_mask, images_in, read_image, read_mask, same_size

SPLITS = {
    "train": ("train", "training"),
    "val": ("val", "validation", "valid", "test", "testing"),
    "test": ("test", "testing"),
}


class Pair(NamedTuple):
    image: Path
    target: Path | None  # None where there should be one


def pairs_in(images: Path, targets: Path) -> list[Pair]:
    """Each image of a folder with what is called like it, whatever its suffix, in another."""
    named = {path.stem: path for path in images_in(targets)}
    return [Pair(path, named.get(path.stem)) for path in images_in(images)]


def annotation(pair: Pair) -> Path:
    """Or say that there is none."""
    if pair.target is None:
        raise BadSample(f"{pair.image}: has no annotation: there is no file of this name beside those of the others.")
    return pair.target


def names_of(split: str) -> tuple[str, ...]:
    """What a split may be called in a layout; where there is no validation set, the test set serves."""
    if split not in SPLITS:
        raise ValueError(f"no split {split!r}. Available: {', '.join(SPLITS)}.")
    return SPLITS[split]


def one_folder(root: Path, names: Sequence[str]) -> Path | None:
    """The first of several that is there."""
    return next((root / name for name in names if (root / name).is_dir()), None)


class Masks(Data):
    """Label maps for segmentation.

    Args:
        pairs: of image and mask.
        classes: their names.
        first: the label of the first class in the files.
        void: labels in the files that say nothing.
    """

    def __init__(
        self, pairs: Sequence[Pair], classes: Sequence[str], *, first: int = 0, void: Collection[int] = (IGNORE,)
    ):
        super().__init__([pair.image.stem for pair in pairs], classes)
        self.pairs, self.first, self.void = list(pairs), first, torch.tensor(sorted(void))

    def __getitem__(self, i: int) -> Sample:
        pair = self.pairs[i]
        path = annotation(pair)
        labels = read_mask(path)
        is_void = torch.isin(labels, self.void)
        known = labels[~is_void] - self.first
        end = len(self.classes or ())
        if known.numel() and not 0 <= int(known.min()) <= int(known.max()) < end:
            found = int(known.min()) if known.min() < 0 else int(known.max())
            raise BadSample(
                f"{path}: has the label {found + self.first}, and there are {end} classes from {self.first} on; "
                f"{self.void.tolist()} are ignored."
            )
        mask = as_mask((labels - self.first).masked_fill(is_void, IGNORE))
        return same_size(path, {"image": read_image(pair.image), "mask": mask, "name": self.names[i]}, "mask")
