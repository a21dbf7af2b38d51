"""Adobe's matting set and Composition-1k: Combined_Dataset with Training_set/ and Test_set/, composed as it says."""

from pathlib import Path

from sapa.tasks.data.composite import background
from sapa.tasks.data.geometry import compose
from sapa.tasks.data.pairs import names_of
from sapa.tasks.data.sample import BadSample, Data, Sample, as_image, as_trimap, read_grey, read_image, same_size
from sapa.tasks.data.trimap import make_trimap

TASKS = ("matting",)
SIGN = "Training_set/ or Test_set/ with *_fg_names.txt (Combined_Dataset)"
SETS = {"train": ("Training_set", "training"), "test": ("Test_set", "test")}
PARTS = ("Adobe-licensed images", "Other", "")
# half of the widest disk that trimaps are drawn with in training
RADIUS = 8.0


def is_here(root: Path) -> bool:
    root = _inner(root)
    return any((root / folder / f"{name}_fg_names.txt").exists() for folder, name in SETS.values())


def open_split(task: str, root: Path, split: str, backgrounds: str | None = None) -> "Compositions":
    """`backgrounds`: the folder of COCO's train2014 for training, of PASCAL VOC's JPEGImages for testing, or both with
    a comma between them."""
    folder, name = SETS["train" if "train" in names_of(split) else "test"]
    home = _inner(root) / folder
    if not (home / f"{name}_fg_names.txt").exists():
        raise FileNotFoundError(f"{home / f'{name}_fg_names.txt'}: is missing.")
    texts = [(home / f"{name}_{layer}_names.txt").read_text().split("\n") for layer in ("fg", "bg")]
    fgs, bgs = ([line.strip() for line in each if line.strip()] for each in texts)
    own = [home / "bg", _inner(root) / "bg", root / "bg"]
    places = [Path(place) for place in backgrounds.split(",")] if backgrounds else own
    # the first is looked for now, and not after hours of training
    bg = next((place for place in places if bgs and (place / bgs[0]).exists()), None)
    if bg is None:
        raise FileNotFoundError(
            f"{' and '.join(map(str, places))}: has no background {bgs[0] if bgs else ''}. They are COCO's train2014 "
            f"for training and PASCAL VOC's JPEGImages for testing: put them there, or name their folders: "
            f"{root}?backgrounds=FOLDER,FOLDER."
        )
    return Compositions(home, bg, fgs, bgs)


def _inner(root: Path) -> Path:
    inner = root / "Combined_Dataset"
    return inner if inner.is_dir() else root


class Compositions(Data):
    """Each foreground over as many backgrounds as the two lists say, in their order: 431 x 100 and 50 x 20.

    Trimaps are those of the set where it has them, else of a fixed width; training draws others.

    Args:
        home: with fg/, alpha/ and perhaps trimaps/ in its parts.
        backgrounds: the folder of the background images.
        fg_names: of files, in the order of the set.
        bg_names: of files; the first belong to the first foreground.
    """

    def __init__(self, home: Path, backgrounds: Path, fg_names: list[str], bg_names: list[str]) -> None:
        self.each = len(bg_names) // len(fg_names)
        if not self.each:
            raise ValueError(f"{home}: lists {len(fg_names)} foregrounds and only {len(bg_names)} backgrounds.")
        stems = [Path(name).stem for name in fg_names]
        super().__init__([f"{stem}_{i}" for stem in stems for i in range(self.each)])
        self.home, self.backgrounds, self.fg_names, self.bg_names = home, backgrounds, fg_names, bg_names

    def __getitem__(self, i: int) -> Sample:
        file = self.fg_names[i // self.each]
        fg_path = self._find("fg", file)
        fg = read_image(fg_path)
        alpha_path = self._find("alpha", file)
        alpha = read_grey(alpha_path)
        H, W = fg.shape[-2:]
        bg = as_image(background(self.backgrounds / self.bg_names[i], (H, W)))
        if alpha.shape[-2:] != fg.shape[-2:]:
            raise BadSample(f"{alpha_path}: is {tuple(alpha.shape[-2:])} (H W), and its image is {(H, W)}.")
        sample = {"image": compose(fg, bg, alpha), "alpha": alpha, "fg": fg, "bg": bg, "name": self.names[i]}
        drawn = self.home / PARTS[0] / "trimaps" / f"{self.names[i]}.png"
        if drawn.exists():
            return same_size(drawn, sample | {"trimap": as_trimap(read_grey(drawn))}, "trimap")
        return sample | {"trimap": make_trimap(alpha, RADIUS, RADIUS)}

    def _find(self, layer: str, file: str) -> Path:
        places = [self.home / part / layer / file for part in PARTS]
        return next((place for place in places if place.exists()), places[0])
