"""The built-in scenes: the same for the same seed, with exact truth, and hard enough to tell upsamplers apart."""

import random

import numpy as np
import pytest
import torch
from torch import Tensor

import sapa
from sapa.tasks.data import Scenes, open_data
from sapa.tasks.data.scenes.canvas import Canvas
from sapa.tasks.data.scenes.room import Camera, draw_room
from sapa.tasks.data.scenes.things import BALL, BOX, CABLE, CLASSES, FENCE, LAMP, PLANT, RING, WALL, ball, box

TASKS = ("segmentation", "detection", "depth", "matting")


def same(a: dict, b: dict) -> bool:
    assert a.keys() == b.keys()
    return all(torch.equal(a[key], b[key]) if isinstance(a[key], Tensor) else a[key] == b[key] for key in a)


@pytest.mark.parametrize("task", TASKS)
def test_a_scene_depends_on_seed_and_place_alone(task: str) -> None:
    data = Scenes(task, 20, seed=3)
    expected = data[7]
    for change in (lambda: torch.manual_seed(5), lambda: np.random.seed(5), lambda: random.seed(5), lambda: data[2]):
        change()
        assert same(data[7], expected)
    assert same(Scenes(task, 8, seed=3)[7], expected)
    assert not torch.equal(Scenes(task, 20, seed=4)[7]["image"], expected["image"])
    assert not torch.equal(data[8]["image"], expected["image"])
    with pytest.raises(IndexError, match="there is no scene 20: there are 20"):
        data[20]


def test_the_splits_of_the_built_in_data_share_no_scene() -> None:
    train, val = (open_data("segmentation", None, split, length=3) for split in ("train", "val"))
    assert isinstance(train, Scenes)
    assert isinstance(val, Scenes)
    assert not any(torch.equal(train[i]["image"], val[j]["image"]) for i in range(3) for j in range(3))


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("size", [(32, 48), (97, 65)])
def test_shapes_types_and_ranges(task: str, size: tuple[int, int]) -> None:
    for sample in (Scenes(task, 4, size)[i] for i in range(4)):
        assert sample["image"].shape == (3, *size)
        assert sample["image"].dtype == torch.float32
        assert 0 <= sample["image"].min() < sample["image"].max() <= 1
        if task == "segmentation":
            assert sample["mask"].dtype == torch.int64
            assert 0 <= sample["mask"].min() <= sample["mask"].max() < len(CLASSES)
        elif task == "depth":
            assert sample["depth"].dtype == torch.float32
            assert 0.5 < sample["depth"].min() < sample["depth"].max() < 11


def test_every_class_occurs_and_none_is_everything() -> None:
    data = Scenes("segmentation", 60)
    counts = sum(torch.bincount(data[i]["mask"].flatten(), minlength=len(CLASSES)) for i in range(60))
    assert isinstance(counts, Tensor)
    shares = counts / counts.sum()
    assert shares.min() > 0.004
    assert shares.max() < 0.6


def test_truths_of_one_scene_belong_together() -> None:
    """The tasks draw the same room; so depth says which of two classes hides the other."""
    for i in range(12):
        mask, depth = Scenes("segmentation", 12)[i]["mask"], Scenes("depth", 12)[i]["depth"][0]
        things = depth[(mask >= BALL) & (mask <= LAMP)]
        for near, far in ((depth[mask == CABLE], depth[mask == FENCE]), (depth[mask == FENCE], things)):
            if len(near) and len(far):
                assert near.max() < far.min()
        if len(things):
            assert things.max() < depth[mask == WALL].max() * 1.001


def test_what_is_nearer_is_drawn_over_what_is_farther() -> None:
    for i in range(12):
        canvas = draw_room(np.random.default_rng((0, i)), (96, 128))
        flat = np.isin(canvas.labels, (PLANT, RING, LAMP))
        depths = {
            int(n): set(canvas.depths[flat & (canvas.objects == n)].tolist()) for n in np.unique(canvas.objects[flat])
        }
        assert all(len(found) == 1 for found in depths.values())
        # they are painted in the order of their numbers
        in_order = [found.pop() for _, found in sorted(depths.items())]
        assert in_order == sorted(in_order, reverse=True)


def test_boxes_enclose_what_one_sees() -> None:
    for i in range(12):
        canvas = draw_room(np.random.default_rng((0, i)), (96, 128))
        sample = Scenes("detection", 12)[i]
        boxes = {tuple(box): int(label) for box, label in zip(sample["boxes"].tolist(), sample["labels"], strict=True)}
        expected = {}
        for number in set(canvas.objects[canvas.objects > 0].tolist()):
            rows, columns = np.nonzero(canvas.objects == number)
            if len(rows) >= 12:
                (label,) = set(canvas.labels[canvas.objects == number].tolist())
                expected[columns.min(), rows.min(), columns.max() + 1, rows.max() + 1] = label - BALL
        assert boxes == expected
        assert not sample["crowd"].any()


def test_a_ball_is_where_the_camera_sees_it() -> None:
    """Its silhouette is a disk of known radius, and each of its pixels is as far as the sphere is there."""
    canvas, camera = Canvas.blank((200, 200)), Camera(150.0, 100.0, 60.0, 1.3)
    generator = np.random.default_rng(0)
    R = np.random.default_rng(0).uniform(0.15, 0.5)
    ball(canvas, camera, generator, 0.2, 2.0, object=1)
    x, y, r = 100 + 150 * 0.2 / 2, 60 + 150 * (1.3 - R) / 2, 150 * R / 2
    rows, columns = np.mgrid[:200, :200] + 0.5
    away = np.hypot(rows - y, columns - x)
    assert np.array_equal(canvas.labels == BALL, away < r)
    inside = canvas.labels == BALL
    expected = 2 - R * np.sqrt(1 - (away[inside] / r) ** 2)
    assert canvas.depths[inside] == pytest.approx(expected, abs=2e-3)
    # only pixels that the outline crosses are mixed
    assert (canvas.colours[away > r + 40] == 0).all()


def test_a_box_stands_on_the_floor() -> None:
    canvas, camera = Canvas.blank((200, 200)), Camera(150.0, 100.0, 60.0, 1.3)
    box(canvas, camera, np.random.default_rng(1), 0.0, 3.0, object=1)
    rows, columns = np.nonzero(canvas.labels == BOX)
    # its nearest edge ends where the floor is 3 m away
    assert rows.max() == int(60 + 150 * 1.3 / 3 - 0.5)
    assert columns[rows == rows.max()].mean() == pytest.approx(100, abs=1.5)
    depths = canvas.depths[rows, columns]
    assert depths.min() == pytest.approx(3, abs=0.01)
    # nothing of it is nearer to the camera than the floor would be there
    assert (depths <= 150 * 1.3 / np.maximum(rows + 0.5 - 60, 1e-3) + 0.05).all()


def test_the_same_scene_at_another_size_is_the_same_scene() -> None:
    small, large = (Scenes("segmentation", 6, size) for size in ((96, 128), (192, 256)))
    for i in range(6):
        down = large[i]["mask"][::2, ::2]
        broad = (down != FENCE) & (down != CABLE) & (small[i]["mask"] != FENCE) & (small[i]["mask"] != CABLE)
        assert (small[i]["mask"] == down)[broad].float().mean() > 0.93


def test_mattes_compose_and_are_soft_thin_and_enclosed_by_their_trimaps() -> None:
    soft, thin = 0.0, 0.0
    for i in range(10):
        sample = Scenes("matting", 10)[i]
        image, alpha, trimap, fg, bg = (
            sample[key].as_subclass(Tensor) for key in ("image", "alpha", "trimap", "fg", "bg")
        )
        assert torch.allclose(image, alpha * fg + (1 - alpha) * bg, atol=1e-6)
        assert set(trimap.unique().tolist()) == {0, 0.5, 1}
        assert (alpha[trimap == 1] > 0.99).all()
        assert (alpha[trimap == 0] < 0.01).all()
        soft += float(((alpha > 0.05) & (alpha < 0.95)).float().mean()) / 10
        opened = -torch.nn.functional.max_pool2d(-alpha[None], 5, 1, 2)[0]
        thin += float((alpha - torch.nn.functional.max_pool2d(opened[None], 5, 1, 2)[0] > 0.3).float().mean()) / 10
    assert soft > 0.03
    assert thin > 0.01


def test_upsamplers_differ_on_them() -> None:
    """Labels at an eighth of the size lose what bilinear cannot bring back, but the picture can tell."""
    wrong = {"bilinear": 0.0, "guided": 0.0}
    for i in range(8):
        sample = Scenes("segmentation", 8, seed=2)[i]
        image = sample["image"].as_subclass(Tensor)[None]
        truth = torch.nn.functional.one_hot(sample["mask"].as_subclass(Tensor), 9).permute(2, 0, 1)[None].float()
        low = torch.nn.functional.avg_pool2d(truth, 8)
        up = torch.nn.functional.interpolate(low, scale_factor=8, mode="bilinear")
        guided = sapa.guided_upsample(low, image)
        for name, found in (("bilinear", up), ("guided", guided)):
            wrong[name] += float((found.argmax(1) != truth.argmax(1)).float().mean()) / 8
    assert wrong["bilinear"] > 0.05
    assert wrong["guided"] < wrong["bilinear"]


def test_an_unknown_task() -> None:
    with pytest.raises(ValueError, match=r"Scenes: no task 'segmentatoin'. Did you mean 'segmentation'\?"):
        Scenes("segmentatoin", 1)
