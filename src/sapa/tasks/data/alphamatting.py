"""The 27 photographs with mattes of alphamatting.com, as they are or cut out and put over other backgrounds."""

from pathlib import Path

import torch
from torchvision import tv_tensors

from sapa.tasks.data.composite import background, foreground, spread
from sapa.tasks.data.folder import Mattes
from sapa.tasks.data.geometry import compose
from sapa.tasks.data.pairs import names_of, one_folder, pairs_in
from sapa.tasks.data.sample import Data, Sample, as_image, images_in

TASKS = ("matting",)
SIGN = "input_training_lowres/ and gt_training_lowres/ (or image/ and alpha/), with trimaps"
IMAGES, ALPHAS = ("input_training_lowres", "image"), ("gt_training_lowres", "alpha")
TRIMAPS = {"1": ("trimap_training_lowres/Trimap1", "trimap1"), "2": ("trimap_training_lowres/Trimap2", "trimap2")}
# there is no official split: every fourth photograph, and every fourth background, is for validation
EVERY = 4


def is_here(root: Path) -> bool:
    has_trimaps = any(one_folder(root, names) for names in TRIMAPS.values())
    return has_trimaps and bool(one_folder(root, IMAGES)) and bool(one_folder(root, ALPHAS))


def open_split(
    task: str, root: Path, split: str, backgrounds: str | None = None, copies: int = 8, trimap: str = "1"
) -> Data:
    """With a folder of `backgrounds`, each foreground goes over `copies` of them; `trimap` is 1 (narrow) or 2."""
    if trimap not in TRIMAPS:
        raise ValueError(f"alphamatting: trimap is {' or '.join(TRIMAPS)}, not {trimap!r}.")
    images, alphas, trimaps = (one_folder(root, names) for names in (IMAGES, ALPHAS, TRIMAPS[trimap]))
    if images is None or alphas is None or trimaps is None:
        raise FileNotFoundError(f"{root}: has no {TRIMAPS[trimap][0]}.")
    pairs = _part(pairs_in(images, alphas), split)
    if backgrounds is None:
        return Mattes(pairs, trimaps)
    behind = _part(images_in(Path(backgrounds)), split)
    if not behind:
        raise FileNotFoundError(f"{backgrounds}: has no images to serve as backgrounds for {split}.")
    return Composed(Mattes(pairs, trimaps), behind, int(copies))


def _part(things: list, split: str) -> list:
    is_training = "train" in names_of(split)
    return [thing for i, thing in enumerate(things, start=1) if (i % EVERY > 0) == is_training]


class Composed(Data):
    """Foregrounds over backgrounds; which, and which part of it, depends on the place of the sample alone."""

    def __init__(self, photographs: Mattes, backgrounds: list[Path], copies: int) -> None:
        super().__init__([f"{name}_{i}" for i in range(copies) for name in photographs.names])
        self.photographs, self.backgrounds = photographs, backgrounds
        # of 27 pictures, as bytes: to estimate one takes as long as to train on it
        self.cut: dict[int, tuple[torch.Tensor, Sample]] = {}

    def __getitem__(self, i: int) -> Sample:
        fg, sample = self._foreground(i % len(self.photographs))
        alpha = sample["alpha"]
        H, W = fg.shape[-2:]
        which, *place = spread(i)
        path = self.backgrounds[int(which * len(self.backgrounds))]
        bg = as_image(background(path, (H, W), (place[0], place[1])))
        return {**sample, "image": compose(fg, bg, alpha), "fg": fg, "bg": bg, "name": self.names[i]}

    def _foreground(self, i: int) -> tuple[tv_tensors.Image, Sample]:
        if i not in self.cut:
            sample = self.photographs[i]
            fg = foreground(sample.pop("image"), sample["alpha"])
            # what is known to be clear stays so, whatever is composed
            sample["alpha"] = tv_tensors.Image((sample["alpha"] * 255).round().byte())
            self.cut[i] = ((fg * 255).round().byte(), sample)
        colours, sample = self.cut[i]
        alpha = tv_tensors.Image(sample["alpha"].float() / 255)
        trimap = sample["trimap"]
        return tv_tensors.Image(colours.float() / 255), {**sample, "alpha": alpha, "trimap": trimap}
