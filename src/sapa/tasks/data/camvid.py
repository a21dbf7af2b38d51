"""CamVid as the SegNet tutorial lays it out: train, trainannot, val, valannot, test, testannot; 11 classes and void."""

from pathlib import Path

from sapa.tasks.data.pairs import Masks, names_of, pairs_in

TASKS = ("segmentation",)
SIGN = "train/ and trainannot/"
CLASSES = (*("sky", "building", "pole", "road", "pavement", "tree", "sign", "fence", "car", "pedestrian", "bicyclist"),)
VOID = 11


def is_here(root: Path) -> bool:
    return any((root / f"{name}annot").is_dir() and (root / name).is_dir() for name in ("train", "val", "test"))


def open_split(task: str, root: Path, split: str) -> Masks:
    # no stand-in here: the three are of different drives
    name = next((n for n in names_of(split)[:1] if (root / f"{n}annot").is_dir()), None)
    if name is None:
        raise FileNotFoundError(f"{root}: has no {split}/ with {split}annot/.")
    return Masks(pairs_in(root / name, root / f"{name}annot"), CLASSES, void=(VOID,))
