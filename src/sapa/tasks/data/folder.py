"""Any folder of images and of masks, depths or mattes with the same names."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from sapa.tasks.data.nyu import as_depth
from sapa.tasks.data.pairs import Masks, Pair, annotation, names_of, one_folder, pairs_in
from sapa.tasks.data.sample import (
    IGNORE,
    BadSample,
    Data,
    Sample,
    as_trimap,
    read_grey,
    read_image,
    read_mask,
    read_pixels,
    same_size,
)
from sapa.tasks.data.trimap import make_trimap

TASKS = ("segmentation", "depth", "matting")
IMAGES = ("images", "image", "imgs", "img", "JPEGImages")
TARGETS = {
    "segmentation": ("masks", "mask", "labels", "label", "annotations", "SegmentationClass"),
    "depth": ("depths", "depth"),
    "matting": ("alphas", "alpha", "mattes", "matte"),
}
TRIMAPS = ("trimaps", "trimap")
SIGN = "images/ beside masks/, depths/ or alphas/; in train/ and val/, or with such folders in each, or with lists"
# without any word about splits, every fifth sample is for validation
EVERY = 5
MOST_TO_COUNT = 5000
MILLIMETRES = 1000.0


def is_here(root: Path) -> bool:
    return any(_roots(root, task) for task in TASKS)


def _roots(root: Path, task: str) -> list[tuple[str, Path, Path]]:
    """(split, images, targets) of all that is there; the split is empty where the folders have none."""
    found = []
    for split in ("", *dict.fromkeys((*names_of("train"), *names_of("val")))):
        images, targets = one_folder(root / split, IMAGES), one_folder(root / split, TARGETS[task])
        if images and targets:
            found.append((split, images, targets))
    if len(found) == 1 and not found[0][0]:
        _, images, targets = found[0]
        below = [name for name in (*names_of("train"), *names_of("val")) if (images / name).is_dir()]
        return [(name, images / name, targets / name) for name in dict.fromkeys(below)] or found
    return found


def open_split(
    task: str, root: Path, split: str, classes: str | None = None, void: str = str(IGNORE), scale: float | None = None
) -> Data:
    """
    Args:
        classes: how many there are, or their names with commas; else classes.txt, else what the masks hold.
        void: labels that say nothing, with commas.
        scale: what a depth of one metre is in the files; 16 bits are millimetres if it is not given.
    """
    roots = _roots(root, task)
    if not roots:
        raise FileNotFoundError(f"{root}: has no {IMAGES[0]}/ with {TARGETS[task][0]}/ for {task}.")
    pairs, images = _pairs(root, roots, split)
    if task == "segmentation":
        ignored = {int(label) for label in str(void).split(",")}
        everything = [pair for _, images, targets in roots for pair in pairs_in(images, targets)]
        return Masks(pairs, _classes(root, classes, everything, ignored), void=ignored)
    if task == "depth":
        return Depths(pairs, None if scale is None else float(scale))
    trimaps = one_folder(images.parent, TRIMAPS) or one_folder(images.parent.parent, TRIMAPS)
    below = None if trimaps is None else trimaps / images.name  # the splits, where they are below
    return Mattes(pairs, below if below is not None and below.is_dir() else trimaps)


def _pairs(root: Path, roots: Sequence[tuple[str, Path, Path]], split: str) -> tuple[list[Pair], Path]:
    named = {name: (images, targets) for name, images, targets in roots}
    for name in names_of(split):
        if name in named:
            return pairs_in(*named[name]), named[name][0]
    if "" not in named:
        raise FileNotFoundError(f"{root}: has no {split}; there is {', '.join(named)}.")
    pairs = pairs_in(*named[""])
    lists = _lists(root)
    if lists:
        return [pair for pair in pairs if _is_in(pair, root, split, lists)], named[""][0]
    is_training = "train" in names_of(split)
    return [pair for i, pair in enumerate(pairs, start=1) if (i % EVERY > 0) == is_training], named[""][0]


def _lists(root: Path) -> dict[str, set[str]]:
    """The names in train.txt and so on, with and without suffixes; those that are there."""
    found = {}
    for name in dict.fromkeys((*names_of("train"), *names_of("val"))):
        if (root / f"{name}.txt").exists():
            lines = [line.strip() for line in (root / f"{name}.txt").read_text().splitlines() if line.strip()]
            found[name] = {Path(line).name for line in lines} | {Path(line).stem for line in lines}
    return found


def _is_in(pair: Pair, root: Path, split: str, lists: dict[str, set[str]]) -> bool:
    """A split without a list has what no list names, so that nothing is both learned and measured."""
    stem = pair.image.stem
    for name in names_of(split):
        if name in lists:
            return stem in lists[name]
    is_training, has_training = "train" in names_of(split), any(name in lists for name in names_of("train"))
    if not is_training and not has_training:
        raise FileNotFoundError(f"{root}: has lists for {', '.join(lists)}, but none for {split}: write {split}.txt.")
    return not any(stem in names for names in lists.values())


def _classes(root: Path, given: str | None, pairs: Sequence[Pair], void: set[int]) -> list[str]:
    if given is not None:
        names = str(given).split(",")
        return [str(i) for i in range(int(given))] if len(names) == 1 and names[0].isdecimal() else names
    listed = root / "classes.txt"
    if listed.exists():
        return [line.strip() for line in listed.read_text().splitlines() if line.strip()]
    if len(pairs) > MOST_TO_COUNT:
        raise ValueError(
            f"{root}: what are its classes? To look through {len(pairs)} masks would take long: write their names to "
            f"{listed}, one in a line, or say how many: {root}?classes=21."
        )
    highest = -1
    for pair in pairs:
        try:
            highest = max(
                [highest, *(set(read_mask(pair.target).unique().tolist()) - void)] if pair.target else [highest]
            )
        except BadSample:  # it will say so when it is its turn
            continue
    return [str(i) for i in range(highest + 1)]


class Depths(Data):
    def __init__(self, pairs: list[Pair], scale: float | None) -> None:
        super().__init__([pair.image.stem for pair in pairs])
        self.pairs, self.scale = pairs, scale

    def __getitem__(self, i: int) -> Sample:
        pair = self.pairs[i]
        path = annotation(pair)
        values = read_pixels(path)
        if values.ndim == 3:
            raise BadSample(f"{path}: has colours, and a depth map is grey.")
        if values.dtype == np.uint8 and self.scale is None:
            raise BadSample(f"{path}: has 8 bits: say what one metre is, as in FOLDER?scale=25.5.")
        scale = self.scale or (1.0 if values.dtype.kind == "f" else MILLIMETRES)
        depth = as_depth(np.nan_to_num(values.astype(np.float32), posinf=0, neginf=0) / scale)
        return same_size(path, {"image": read_image(pair.image), "depth": depth, "name": self.names[i]}, "depth")


class Mattes(Data):
    """With trimaps of the folder if there is one, else drawn from the mattes."""

    def __init__(self, pairs: list[Pair], trimaps: Path | None) -> None:
        super().__init__([pair.image.stem for pair in pairs])
        self.pairs, self.trimaps = pairs, trimaps

    def __getitem__(self, i: int) -> Sample:
        pair = self.pairs[i]
        path = annotation(pair)
        sample = {"image": read_image(pair.image), "alpha": read_grey(path), "name": self.names[i]}
        same_size(path, sample, "alpha")
        if self.trimaps is None:
            radius = 0.02 * min(sample["image"].shape[-2:])
            return sample | {"trimap": make_trimap(sample["alpha"], radius, radius)}
        path = self.trimaps / f"{pair.image.stem}.png"
        return same_size(path, sample | {"trimap": as_trimap(read_grey(path))}, "trimap")
