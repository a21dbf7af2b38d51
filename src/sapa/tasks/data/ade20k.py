"""ADE20K as in the challenge, ADEChallengeData2016: 150 classes from 1 on, 0 is everything else."""

from pathlib import Path

from sapa.tasks.data.pairs import Masks, names_of, one_folder, pairs_in

TASKS = ("segmentation",)
NAME, TABLE = "ADEChallengeData2016", "objectInfo150.txt"
SIGN = f"{NAME}/ or {TABLE}, with images/training/ and annotations/training/ (or validation)"
CLASSES = 150


def is_here(root: Path) -> bool:
    root = _inner(root)
    # any folder may have such names, and its label 0 be a class
    return (root.name == NAME or (root / TABLE).exists()) and any(
        (root / "images" / n).is_dir() and (root / "annotations" / n).is_dir() for n in ("training", "validation")
    )


def open_split(task: str, root: Path, split: str) -> Masks:
    root = _inner(root)
    images = one_folder(root / "images", names_of(split))
    if images is None:
        raise FileNotFoundError(f"{root}: has no images/{' or images/'.join(names_of(split))}.")
    return Masks(pairs_in(images, root / "annotations" / images.name), _classes(root), first=1, void=(0,))


def _inner(root: Path) -> Path:
    """The folder of the archive may be around it."""
    inner = root / NAME
    return inner if inner.is_dir() else root


def _classes(root: Path) -> list[str]:
    """The last column of objectInfo150.txt, of each name the first of its synonyms."""
    table = root / TABLE
    if not table.exists():
        return [f"class {i}" for i in range(1, CLASSES + 1)]
    rows = [line.split("\t") for line in table.read_text().splitlines()[1:] if line.strip()]
    return [row[-1].split(",")[0].strip() for row in rows]
