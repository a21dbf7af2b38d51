"""Augmentations move all of a sample together, and draw from the generator alone."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torchvision import tv_tensors

from sapa.tasks.data import Scenes, augment
from sapa.tasks.data.geometry import crop, flip, resize, rotate
from sapa.tasks.data.trimap import make_trimap

TASKS = ("segmentation", "detection", "depth", "matting")
KEYS = ("image", "mask", "depth", "alpha", "trimap", "fg", "bg")


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def coordinates(H: int = 48, W: int = 64) -> dict[str, Any]:
    """A sample whose every map says where it is from: rows in red, columns in green; labels and depths by both."""
    y, x = torch.meshgrid(torch.arange(H) + 0.5, torch.arange(W) + 0.5, indexing="ij")
    image = torch.stack([y / H, x / W, torch.zeros(H, W)])
    return {
        "image": tv_tensors.Image(image),
        "mask": tv_tensors.Mask((8 * (y / H * 4).int() + (x / W * 4).int()).long()),
        "depth": tv_tensors.Mask((1 + image[0] + 2 * image[1])[None]),
        "alpha": tv_tensors.Image(image[1:2].clone()),
        "trimap": tv_tensors.Mask(torch.full((1, H, W), 0.5)),
        "name": "coordinates",
    }


def agree(sample: dict[str, Any], factor: float = 1.0, tolerance: float = 0.03, frame: int = 0) -> None:
    """The maps still say the same of every place that is in the picture, but for labels right at their edges."""
    image = sample["image"].as_subclass(Tensor)
    known = sample["mask"].as_subclass(Tensor) != 255
    # inside: what is filled, or mixed with it, is left out
    known = -torch.nn.functional.max_pool2d(-known[None].float(), 3, 1, 1)[0] > 0
    known[:frame], known[:, :frame] = False, False
    known[known.shape[0] - frame :], known[:, known.shape[1] - frame :] = False, False
    assert known.any()
    y, x = image[0], image[1]
    expected = 8 * (y * 4).int() + (x * 4).int()
    edge = ((y * 4) % 1 - 0.5).abs().maximum(((x * 4) % 1 - 0.5).abs()) > 0.5 - 4 * tolerance
    assert torch.equal(sample["mask"].as_subclass(Tensor)[known & ~edge], expected[known & ~edge].long())
    depth = sample["depth"].as_subclass(Tensor)[0]
    assert (depth * factor - (1 + y + 2 * x)).abs()[known].max() < 3 * tolerance
    assert (sample["alpha"].as_subclass(Tensor)[0] - x).abs()[known].max() < 1e-5


@pytest.mark.parametrize("task", TASKS)
def test_a_generator_gives_the_same_sample_whatever_else_runs(task: str) -> None:
    sample = Scenes(task, 4, (64, 80))[1]
    fields: dict[str, Any] = {"crops": (32, 48)} if task == "matting" else {"scale": (0.5, 2.0)}
    prepare = augment(task, size=(48, 56), colour="ssd", **fields)
    first = prepare(sample, seeded(1))
    torch.manual_seed(77)
    np.random.seed(77)
    again, other = prepare(sample, seeded(1)), prepare(sample, seeded(2))
    for key in first:
        assert torch.equal(first[key], again[key]) if isinstance(first[key], Tensor) else first[key] == again[key]
    assert not torch.equal(first["image"], other["image"])
    # and the sample itself is as it was
    assert torch.equal(sample["image"], Scenes(task, 4, (64, 80))[1]["image"])


@pytest.mark.parametrize("seed", range(12))
def test_scale_crop_and_flip_move_all_maps_together(seed: int) -> None:
    prepare = augment("depth", size=(40, 52), scale=(0.5, 2.0))
    sample = prepare(coordinates(), seeded(seed))
    assert all(sample[key].shape[-2:] == (40, 52) for key in ("image", "mask", "depth", "alpha"))
    # the factor that was drawn first, by which what looks larger is nearer
    factor = 0.5 + 1.5 * float(torch.rand((), generator=seeded(seed), dtype=torch.float64))
    agree(sample, factor)


def test_half_of_the_samples_are_flipped_and_scales_and_places_vary() -> None:
    prepare = augment("segmentation", size=(24, 32), scale=(1.0, 2.0))
    flips, lefts = 0, set()
    for seed in range(200):
        columns = prepare(coordinates(), seeded(seed))["image"][1, 0]
        flips += int(columns[0] > columns[-1])
        lefts.add(round(float(min(columns[0], columns[-1])), 3))
    assert 75 < flips < 125
    assert len(lefts) > 60


def test_flip() -> None:
    sample = Scenes("detection", 3, (40, 60))[0] | {"mask": coordinates(40, 60)["mask"]}
    flipped = flip(sample)
    assert torch.equal(flipped["image"], torch.flip(sample["image"], [-1]))
    assert torch.equal(flipped["mask"], torch.flip(sample["mask"], [-1]))
    left, top, right, bottom = sample["boxes"].unbind(1)
    assert torch.equal(flipped["boxes"].as_subclass(Tensor), torch.stack([60 - right, top, 60 - left, bottom], 1))
    again = flip(flipped)
    assert torch.equal(again["boxes"], sample["boxes"])


def test_labels_are_taken_at_the_nearest_centre() -> None:
    """Halved, a pixel lies between two; 48 to 16, it lies right on the middle one of three."""
    sample = coordinates(48, 48)
    third = resize(sample, (16, 16))
    assert torch.equal(third["mask"], sample["mask"][1::3, 1::3])
    assert torch.equal(third["depth"], sample["depth"][:, 1::3, 1::3])
    assert third["mask"].dtype == torch.int64
    agree(resize(sample, (31, 67)))


def test_unknown_depths_are_not_mixed_with_known_ones() -> None:
    depth = torch.full((1, 32, 32), 4.0)
    depth[:, ::2] = 0
    sample = {"image": tv_tensors.Image(torch.rand(3, 32, 32)), "depth": tv_tensors.Mask(depth)}
    assert set(resize(sample, (23, 41))["depth"].unique().tolist()) == {0, 4}
    assert set(rotate(sample, 11)["depth"].unique().tolist()) == {0, 4}


def test_beyond_the_picture_labels_are_ignored_and_depths_unknown() -> None:
    sample = crop(coordinates(), -5, -3, (60, 80))
    inside = torch.zeros(60, 80, dtype=torch.bool)
    inside[5:53, 3:67] = True
    assert torch.equal(sample["mask"].as_subclass(Tensor) != 255, inside)
    assert torch.equal(sample["depth"].as_subclass(Tensor)[0] > 0, inside)
    assert (sample["image"].as_subclass(Tensor)[:, ~inside] == 0).all()
    assert torch.equal(sample["image"].as_subclass(Tensor)[:, 5:53, 3:67], coordinates()["image"])


def test_a_picture_that_is_too_small_is_padded_anywhere() -> None:
    prepare = augment("segmentation", size=(40, 40), short=20, flip=0)
    firsts = set()
    for seed in range(40):
        mask = prepare(coordinates(40, 40), seeded(seed))["mask"].as_subclass(Tensor)
        rows, columns = (mask != 255).nonzero().unbind(1)
        assert (rows.max() - rows.min(), columns.max() - columns.min()) == (19, 19)
        firsts.add((int(rows.min()), int(columns.min())))
    assert len(firsts) > 25


def test_boxes_are_cut_and_those_outside_are_gone() -> None:
    sample = {
        "image": tv_tensors.Image(torch.rand(3, 50, 50)),
        "boxes": tv_tensors.BoundingBoxes([[5, 5, 25, 15], [30, 30, 40, 40.0]], format="XYXY", canvas_size=(50, 50)),  # type: ignore[call-overload]
        "labels": torch.tensor([3, 4]),
        "crowd": torch.tensor([False, True]),
        "area": torch.tensor([100.0, 50.0]),
    }
    part = crop(sample, 10, 7, (20, 30))
    # the second lies right below
    assert part["boxes"].tolist() == [[0, 0, 18, 5]]
    assert part["labels"].tolist() == [3]
    # 18 x 5 of 20 x 10 are left
    assert part["area"].tolist() == [45]
    assert part["boxes"].canvas_size == (20, 30)
    double = resize(sample, (100, 100))
    assert double["boxes"].tolist() == [[10, 10, 50, 30], [60, 60, 80, 80]]
    assert double["area"].tolist() == [400, 200]
    with pytest.raises(ValueError, match="boxes do not stay tight"):
        rotate(sample, 3)


def test_rotation_moves_all_maps_together() -> None:
    turned = rotate(coordinates(), 10)
    agree(turned, frame=1)
    # a point right of the centre goes up, and the corners are filled
    assert turned["mask"][0, 0] == 255
    right = turned["image"][:, 24, 56].tolist()
    angle = math.radians(10)
    assert right[0] == pytest.approx((24 + 24.5 * math.sin(angle)) / 48, abs=0.02)
    assert right[1] == pytest.approx((32 + 24.5 * math.cos(angle)) / 64, abs=0.02)


def test_evaluation_is_not_random() -> None:
    sample = coordinates()
    prepare = augment("segmentation", size=(24, 24), scale=(0.5, 2), colour="ssd", train=False)
    first, again = prepare(sample, seeded(0)), prepare(sample, seeded(9))
    assert first["mask"].shape == (24, 24)
    assert torch.equal(first["image"], again["image"])
    agree(first, tolerance=0.04)
    whole = augment("segmentation", size=(24, 24), short=30, longest=36, train=False, evaluate="whole")(sample, None)
    # the shorter side would be 30, but the longer one is 36 at most
    assert whole["image"].shape == (3, 27, 36)
    assert torch.equal(whole["mask"], sample["mask"])


def test_a_crop_of_almost_one_class_is_drawn_again() -> None:
    mask = torch.zeros(64, 64, dtype=torch.int64)
    mask[:, 48:] = 1
    sample = {"image": tv_tensors.Image(torch.rand(3, 64, 64)), "mask": tv_tensors.Mask(mask)}
    shares = {}
    for most in (1.0, 0.75):
        prepare = augment("segmentation", size=(16, 16), short=64, most=most)
        found = [prepare(sample, seeded(seed))["mask"].float().mean() for seed in range(60)]
        shares[most] = sum(0.25 < float(share) < 0.75 for share in found) / 60
    # 7 of 49 places show enough of both; ten draws find one of them in 79 of 100 cases
    assert shares[1.0] < 0.3
    assert shares[0.75] > 0.6


def test_detectors_see_whole_pictures() -> None:
    sample = Scenes("detection", 2, (60, 80))[0]
    fitted = augment("detection", size=(90, 90), flip=0)(sample, seeded(0))
    # 90 x 90 holds 68 x 90
    assert fitted["image"].shape == (3, 68, 90)
    assert len(fitted["boxes"]) == len(sample["boxes"])
    assert fitted["boxes"].as_subclass(Tensor)[:, 0] == pytest.approx(sample["boxes"][:, 0] * 90 / 80, abs=1e-3)
    large = augment("detection", short=120, longest=140, flip=0)(sample, seeded(0))
    assert large["image"].shape == (3, 105, 140)


@pytest.mark.parametrize("colour", ["ssd", "bts"])
def test_colours_change_the_picture_alone(colour: str) -> None:
    sample = Scenes("segmentation", 1)[0]
    prepare = augment("segmentation", colour=colour, flip=0)
    changed = [prepare(sample, seeded(seed)) for seed in range(12)]
    assert all(torch.equal(each["mask"], sample["mask"]) for each in changed)
    assert all(each["image"].min() >= 0 and each["image"].max() <= 1 for each in changed)
    differences = [float((each["image"] - sample["image"]).abs().mean()) for each in changed]
    assert sum(difference > 0.01 for difference in differences) >= 5
    # never beyond recognition: bright stays brighter than dark
    grey = [each["image"].as_subclass(Tensor).mean(0).flatten() for each in (*changed, sample)]
    assert all(float(torch.corrcoef(torch.stack([each, grey[-1]]))[0, 1]) > 0.8 for each in grey[:-1])


@pytest.mark.parametrize("seed", range(6))
def test_composites_stay_composites(seed: int) -> None:
    sample = Scenes("matting", 6, (80, 96))[seed]
    found = augment("matting", size=(40, 40), crops=(32, 64, 128), colour="ssd")(sample, seeded(seed))
    image, alpha, fg, bg = (found[key].as_subclass(Tensor) for key in ("image", "alpha", "fg", "bg"))
    assert image.shape == (3, 40, 40)
    assert torch.allclose(image, alpha * fg + (1 - alpha) * bg, atol=1e-6)
    # the crop is around something that is partly transparent
    assert ((alpha > 0) & (alpha < 1)).any()
    assert not torch.equal(fg, sample["fg"][:, :40, :40])


@pytest.mark.parametrize("move", [lambda sample: resize(sample, (31, 50)), lambda sample: rotate(sample, 7)])
def test_composites_stay_composites_in_each_move(move: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Where the means of picture, layers and matte would be taken by themselves, they would not fit any more."""
    found = move(Scenes("matting", 1, (80, 96))[0])
    image, alpha, fg, bg = (found[key].as_subclass(Tensor) for key in ("image", "alpha", "fg", "bg"))
    assert torch.allclose(image, alpha * fg + (1 - alpha) * bg, atol=1e-6)


def test_trimaps_are_drawn_anew_and_enclose_the_matte() -> None:
    sample = Scenes("matting", 3, (80, 96))[0]
    prepare = augment("matting", size=(80, 96), trimap=(1.0, 9.0), flip=0)
    widths = set()
    for seed in range(8):
        found = prepare(sample, seeded(seed))
        trimap, alpha = found["trimap"].as_subclass(Tensor), found["alpha"].as_subclass(Tensor)
        assert (alpha[trimap == 1] > 0.99).all()
        assert (alpha[trimap == 0] < 0.01).all()
        widths.add(int((trimap == 0.5).sum()))
    assert len(widths) == 8


def test_a_trimap_is_eroded_by_disks() -> None:
    alpha = torch.zeros(1, 41, 41)
    alpha[:, 20:] = 1
    trimap = make_trimap(alpha, 3, 5)[0, :, 20]
    assert trimap.tolist() == [0.0] * 15 + [0.5] * 8 + [1.0] * 18
    corner = torch.zeros(1, 41, 41)
    corner[:, 20, 20] = 0.5
    unknown = (make_trimap(corner, 4, 4)[0] == 0.5).nonzero() - 20
    assert unknown.float().norm(dim=1).max() == 4
    assert len(unknown) == sum(y * y + x * x <= 16 for y in range(-4, 5) for x in range(-4, 5))
    assert (make_trimap(torch.ones(1, 5, 5), 3, 3) == 1).all()


def test_a_trimap_made_smaller_is_known_where_all_of_it_was() -> None:
    trimap = torch.ones(1, 12, 12)
    trimap[:, 5] = 0.5
    trimap[:, 8:] = 0
    sample = {"image": tv_tensors.Image(torch.rand(3, 12, 12)), "trimap": tv_tensors.Mask(trimap)}
    rows = resize(sample, (4, 4))["trimap"][0, :, 0].tolist()
    # three rows each, and their neighbours as far as the filter reaches
    assert rows == [1.0, 0.5, 0.5, 0.0]


def test_options_that_cannot_be_meant() -> None:
    with pytest.raises(ValueError, match=r"augment: no colour 'sdd'. Did you mean 'ssd'\?"):
        augment("segmentation", colour="sdd")
    with pytest.raises(ValueError, match=r"augment: no task 'deep'"):
        augment("deep")
    with pytest.raises(ValueError, match="crops are squares around the unknown of a trimap, and depth has none"):
        augment("depth", crops=(32,))
