"""Each reader on a tiny set in the original layout, made here; and what is wrong with a set, in words."""

import json
import pickle
import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from PIL import Image
from scipy.io import savemat
from torch.utils.data import DataLoader
from torchvision import tv_tensors

from sapa.tasks.data import LAYOUTS, BadSample, Data, Hub, Scenes, collate, detect, open_data
from sapa.tasks.data.augment import augment
from sapa.tasks.data.composite import background, foreground

SIZE = (12, 16)
ROOT = Path(__file__).parents[1]


def photo(path: Path, seed: int = 0, size: tuple[int, int] = SIZE) -> np.ndarray:
    pixels = np.random.default_rng(seed).integers(0, 256, (*size, 3), dtype=np.uint8)
    return save(path, pixels)


def save(path: Path, pixels: np.ndarray) -> np.ndarray:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path)
    return pixels


def labels(path: Path, values: list[int], size: tuple[int, int] = SIZE) -> np.ndarray:
    """A mask of stripes, so that each place has a label that is known."""
    stripes = np.array(values, np.uint8)[np.arange(size[1]) % len(values)]
    return save(path, np.broadcast_to(stripes, size).copy())


def equals(image: torch.Tensor, pixels: np.ndarray) -> bool:
    return torch.equal((image * 255).round().byte(), torch.from_numpy(pixels).permute(2, 0, 1))


def opened(task: str, root: Path | str, split: str = "train", **options: Any) -> Data:
    found = open_data(task, root, split, **options)
    assert isinstance(found, Data)
    return found


# segmentation


def camvid(root: Path) -> None:
    for split, names in {"train": ("a", "b"), "val": ("c",)}.items():
        for name in names:
            photo(root / split / f"{name}.png", ord(name))
            labels(root / f"{split}annot" / f"{name}.png", [0, 10, 11, 3])


def test_camvid(tmp_path: Path) -> None:
    camvid(tmp_path)
    assert detect(tmp_path) == "camvid"
    data = opened("segmentation", tmp_path)
    assert data.names == ["a", "b"]
    assert data.classes is not None
    assert len(data.classes) == 11
    sample = data[1]
    assert isinstance(sample["image"], tv_tensors.Image)
    assert isinstance(sample["mask"], tv_tensors.Mask)
    assert sample["image"].dtype == torch.float32
    assert sample["mask"].dtype == torch.int64
    assert equals(sample["image"], photo(tmp_path / "x.png", ord("b")))
    # 11 is void
    assert sample["mask"][5].tolist() == [0, 10, 255, 3] * 4
    assert opened("segmentation", tmp_path, "val").names == ["c"]
    with pytest.raises(FileNotFoundError, match="has no test/ with testannot/"):
        open_data("segmentation", tmp_path, "test")


def test_ade20k(tmp_path: Path) -> None:
    root = tmp_path / "ADEChallengeData2016"
    for split in ("training", "validation"):
        photo(root / "images" / split / f"ADE_{split}.jpg")
        labels(root / "annotations" / split / f"ADE_{split}.png", [0, 1, 150])
    rows = [f"{i}\t0.1\t10\t2\tthing {i}, synonym" for i in range(1, 151)]
    (root / "objectInfo150.txt").write_text("\n".join(["Idx\tRatio\tTrain\tVal\tName", *rows]))
    assert detect(tmp_path) == detect(root) == "ade20k"
    data = opened("segmentation", tmp_path, "val")
    assert data.names == ["ADE_validation"]
    assert data.classes == [f"thing {i}" for i in range(1, 151)]
    # 0 is everything else, and classes count from 1
    assert data[0]["mask"][0, :3].tolist() == [255, 0, 149]


def test_sunrgbd_labels_of_the_training_images_come_after_those_of_the_test_images(tmp_path: Path) -> None:
    for part, number, label in (("train", 1, 37), ("test", 1, 5)):
        photo(tmp_path / f"SUNRGBD-{part}_images" / f"img-{number:06}.jpg")
        place = number + 5050 if part == "train" else number
        labels(tmp_path / "sunrgbd_train_test_labels" / f"img-{place:06}.png", [0, label])
    assert detect(tmp_path) == "sunrgbd_labels"
    assert opened("segmentation", tmp_path)[0]["mask"][0, :2].tolist() == [255, 36]
    assert opened("segmentation", tmp_path, "val")[0]["mask"][0, :2].tolist() == [255, 4]


@pytest.fixture
def sunrgbd(tmp_path: Path) -> Path:
    """Two frames, of which the second is trained on, as the toolbox has them: paths of another machine, depth with its
    bits turned, labels in columns behind references."""
    meta, depths = [], (np.arange(192, dtype=np.uint16).reshape(SIZE) * 50 + 1000)
    for i, name in enumerate(("kv1/NYUdata/NYU0001", "xtion/sun3ddata/room/0001")):
        home = tmp_path / "SUNRGBD" / name
        photo(home / "image" / f"{i}.jpg", i)
        save(home / "depth_bfx" / f"{i}.png", (depths << 3) | (depths >> 13))
        path = f"/n/fs/sun3d/data/SUNRGBD/{name}/image/{i}.jpg"
        meta.append({"rgbpath": path, "rgbname": f"{i}.jpg", "depthname": f"{i}.png"})
    toolbox = tmp_path / "SUNRGBDtoolbox"
    for folder in ("Metadata", "traintestSUNRGBD"):
        (toolbox / folder).mkdir(parents=True)
    table = np.array([tuple(each.values()) for each in meta], dtype=[(key, "O") for key in meta[0]])
    savemat(toolbox / "Metadata" / "SUNRGBDMeta.mat", {"SUNRGBDMeta": table})
    trained = np.array(["/n/fs/sun3d/data/SUNRGBD/xtion/sun3ddata/room/0001"], dtype=object)
    savemat(toolbox / "traintestSUNRGBD" / "allsplit.mat", {"alltrain": trained})
    with h5py.File(toolbox / "Metadata" / "SUNRGBD2Dseg.mat", "w") as file:
        references = file.create_dataset("SUNRGBD2Dseg/seglabel", (2, 1), dtype=h5py.ref_dtype)
        for i in range(2):
            drawn = np.zeros(SIZE, np.uint8)
            drawn[2, 3 + i] = 37 - i
            references[i, 0] = file.create_dataset(f"refs/{i}", data=drawn.T).ref
    return tmp_path


def test_sunrgbd(sunrgbd: Path) -> None:
    assert detect(sunrgbd) == "sunrgbd"
    data = opened("segmentation", sunrgbd)
    assert data.names == ["SUNRGBD/xtion/sun3ddata/room/0001"]
    mask = data[0]["mask"]
    assert mask.shape == SIZE
    assert (mask != 255).nonzero().tolist() == [[2, 4]]
    assert mask[2, 4] == 35
    depth = opened("depth", sunrgbd, "val")[0]["depth"]
    # 10.55 m at the end, and the toolbox ends at 8
    assert depth.flatten().tolist() == pytest.approx([min(1 + 0.05 * i, 8) for i in range(192)])


def test_files_of_matlab_go_to_workers(sunrgbd: Path) -> None:
    data = opened("segmentation", sunrgbd)
    before = data[0]["mask"]
    again = pickle.loads(pickle.dumps(data))
    assert torch.equal(again[0]["mask"], before)


# boxes


def coco(root: Path, file: str = "annotations/instances_train2017.json", images: str = "train2017") -> None:
    photo(root / images / "one.jpg")
    photo(root / images / "two.jpg", 1)
    (root / file).parent.mkdir(parents=True, exist_ok=True)
    boxes = [
        {"image_id": 5, "bbox": [2, 3, 4, 5], "category_id": 90, "iscrowd": 0, "area": 17.5},
        {"image_id": 5, "bbox": [-2, 8, 30, 30], "category_id": 1, "iscrowd": 1, "area": 60.0},
        {"image_id": 5, "bbox": [4, 4, 0, 5], "category_id": 1, "iscrowd": 0, "area": 0.0},
    ]
    about = [{"id": i, "file_name": f"{name}.jpg", "height": 12, "width": 16} for i, name in ((5, "one"), (9, "two"))]
    kinds = [{"id": 90, "name": "brush"}, {"id": 1, "name": "person"}]
    found = {"images": about, "annotations": [{"id": i, **box} for i, box in enumerate(boxes)], "categories": kinds}
    (root / file).write_text(json.dumps(found))


def test_coco(tmp_path: Path) -> None:
    coco(tmp_path)
    assert detect(tmp_path) == "coco"
    data = opened("detection", tmp_path)
    # the one without objects is left out in training
    assert data.names == ["one.jpg"]
    assert data.classes == ["person", "brush"]
    sample = data[0]
    # xyxy, cut at the frame; one without a width is dropped
    assert sample["boxes"].tolist() == [[2, 3, 6, 8], [0, 8, 16, 12]]
    assert sample["boxes"].canvas_size == SIZE
    assert sample["labels"].tolist() == [1, 0]
    assert sample["crowd"].tolist() == [False, True]
    assert sample["area"].tolist() == [17.5, 60]
    assert sample["image_id"] == 5


def test_coco_for_evaluation_and_beside_its_images(tmp_path: Path) -> None:
    coco(tmp_path, "instances_val.json", "images")
    data = opened("detection", tmp_path, "val")
    assert data.names == ["one.jpg", "two.jpg"]
    empty = data[1]
    assert empty["boxes"].shape == (0, 4)
    assert empty["labels"].shape == (0,)
    with pytest.raises(FileNotFoundError, match=r"has no instances_train\*.json; there is instances_val.json"):
        open_data("detection", tmp_path, "train")


def test_coco_says_what_is_wrong(tmp_path: Path) -> None:
    coco(tmp_path)
    file = tmp_path / "annotations" / "instances_train2017.json"
    text = file.read_text()
    file.write_text(text.replace('"height": 12', '"height": 13'))
    with pytest.raises(
        BadSample, match=r"one.jpg: is \(12, 16\) \(H W\), and instances_train2017.json says \(13, 16\)"
    ):
        opened("detection", tmp_path)[0]
    file.write_text(text.replace('"categories"', '"kinds"'))
    with pytest.raises(ValueError, match="not in the format of COCO"):
        opened("detection", tmp_path)


# depth


def test_nyu_lists(tmp_path: Path) -> None:
    frame = (480, 640)
    millimetres = np.random.default_rng(0).integers(500, 9000, frame).astype(np.uint16)
    for home in ("sync", "official_splits/test"):
        pixels = photo(tmp_path / home / "kitchen" / "rgb_1.png", size=frame)
        save(tmp_path / home / "kitchen" / "sync_depth_1.png", millimetres)
    lines = "/kitchen/rgb_1.png /kitchen/sync_depth_1.png 518.8579\n/kitchen/rgb_1.png None 518.8579\n"
    (tmp_path / "eigen_train_files_with_gt.txt").write_text("2011_09_26/kitti.png None 721.5\n")
    (tmp_path / "nyudepthv2_train_files_with_gt.txt").write_text(lines)
    (tmp_path / "nyudepthv2_test_files_with_gt.txt").write_text(lines.replace("/kitchen", "kitchen"))
    assert detect(tmp_path) == "nyu_lists"
    sample = opened("depth", tmp_path)[0]
    # what both cameras see
    assert torch.equal(sample["depth"][0], torch.from_numpy(millimetres / np.float32(1000))[45:472, 43:608])
    assert equals(sample["image"], pixels[45:472, 43:608])
    assert sample["focal"] == 518.8579
    test = opened("depth", tmp_path, "val")[0]
    assert test["image"].shape[-2:] == frame
    known = test["depth"][0] > 0
    assert torch.equal(known.nonzero().amin(0), torch.tensor([45, 41]))
    assert torch.equal(known.nonzero().amax(0), torch.tensor([470, 600]))
    # at one size the evaluation sees as much of the frame as the training, so that things look as large
    at_one = augment("depth", size=(427, 565), train=False)(test, None)
    assert equals(at_one["image"], pixels[45:472, 41:606])
    whole = augment("depth", size=(427, 565), short=427, train=False, evaluate="whole")(test, None)
    assert equals(whole["image"], pixels)
    assert "view" not in at_one | whole
    with pytest.raises(BadSample, match="has no annotation: its line says None"):
        opened("depth", tmp_path)[1]


def test_nyu_labelled(tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    images, depths = random.integers(0, 256, (3, 480, 640, 3), dtype=np.uint8), random.uniform(1, 9, (3, 480, 640))
    with h5py.File(tmp_path / "nyu_depth_v2_labeled.mat", "w") as file:
        file["images"] = images.transpose(0, 3, 2, 1)
        file["depths"] = depths.transpose(0, 2, 1).astype(np.float32)
    assert detect(tmp_path) == detect(tmp_path / "nyu_depth_v2_labeled.mat") == "nyu_labelled"
    with pytest.raises(FileNotFoundError, match=r"splits.mat: is missing"):
        open_data("depth", tmp_path)
    savemat(tmp_path / "splits.mat", {"trainNdxs": np.array([[3], [1]]), "testNdxs": np.array([[2]])})
    data = opened("depth", tmp_path)
    assert data.names == ["0003", "0001"]
    assert equals(data[0]["image"], images[2, 45:472, 43:608])
    assert torch.equal(data[1]["depth"][0], torch.from_numpy(depths[0].astype(np.float32))[45:472, 43:608])
    assert opened("depth", tmp_path, "val").names == ["0002"]


def test_nyu_frames(tmp_path: Path) -> None:
    for name in ("0003", "0007"):
        photo(tmp_path / "image" / f"{name}.jpg")
        save(tmp_path / "depth" / f"{name}.png", np.full(SIZE, 100, np.uint8))
        labels(tmp_path / "label40" / f"{name}.png", [0, 38, 39])
    (tmp_path / "label40_names.json").write_text(json.dumps({str(i): f"thing {i}" for i in range(40)}))
    (tmp_path / "train.txt").write_text("0003\n")
    (tmp_path / "test.txt").write_text("0007\n")
    assert detect(tmp_path) == "nyu_frames"
    assert opened("depth", tmp_path, "val").names == ["0007"]
    assert opened("depth", tmp_path)[0]["depth"][0, 0, 0] == pytest.approx(100.5 / 25.51)
    masks = opened("segmentation", tmp_path)
    assert masks.classes == [f"thing {i}" for i in range(39)]
    assert masks[0]["mask"][0, :3].tolist() == [0, 38, 255]


# matting


def alphas(path: Path, seed: int = 0, size: tuple[int, int] = SIZE) -> np.ndarray:
    ramp = np.clip(np.linspace(-300, 560, size[1]), 0, 255).astype(np.uint8)
    return save(path, np.roll(np.broadcast_to(ramp, size), seed, axis=0).copy())


def test_composition1k(tmp_path: Path) -> None:
    root = tmp_path / "Combined_Dataset"
    train, test = root / "Training_set", root / "Test_set"
    fgs = [photo(train / part / "fg" / f"{i}.png", i) for i, part in enumerate(("Adobe-licensed images", "Other"))]
    mattes = [alphas(train / part / "alpha" / f"{i}.png") for i, part in enumerate(("Adobe-licensed images", "Other"))]
    (train / "training_fg_names.txt").write_text("0.png\r\n1.png\r\n")
    (train / "training_bg_names.txt").write_text("\n".join(f"bg{i}.png" for i in range(4)))
    # the first is larger than the foregrounds, the others smaller
    bgs = [photo(tmp_path / "coco" / f"bg{i}.png", 9 + i, (20, 30) if i == 0 else (6, 8)) for i in range(4)]
    with pytest.raises(
        FileNotFoundError, match=r"no background bg0.png.*COCO's train2014.*\?backgrounds=FOLDER,FOLDER"
    ):
        open_data("matting", tmp_path)
    data = opened("matting", f"{tmp_path}?backgrounds={tmp_path / 'coco'}")
    assert detect(tmp_path) == "composition1k"
    assert data.names == ["0_0", "0_1", "1_0", "1_1"]
    sample = data[0]
    weight = mattes[0][..., None] / 255
    assert np.allclose(sample["image"].permute(1, 2, 0), weight * fgs[0] / 255 + (1 - weight) * bgs[0][:12, :16] / 255)
    assert equals(data[3]["fg"], fgs[1])
    assert data[3]["bg"].shape == (3, *SIZE)
    assert set(sample["trimap"].unique().tolist()) <= {0, 0.5, 1}
    assert (sample["trimap"][sample["alpha"].sub(0.5).abs() < 0.4] == 0.5).all()
    # the test set has its trimaps
    photo(test / "Adobe-licensed images" / "fg" / "t.png")
    alphas(test / "Adobe-licensed images" / "alpha" / "t.png")
    drawn = np.full(SIZE, 128, np.uint8)
    drawn[:, :4], drawn[:, 12:] = 0, 255
    save(test / "Adobe-licensed images" / "trimaps" / "t_0.png", drawn)
    (test / "test_fg_names.txt").write_text("t.png\n")
    (test / "test_bg_names.txt").write_text("bg0.png\n")
    both = f"{tmp_path / 'voc'},{tmp_path / 'coco'}"  # what is measured is over other backgrounds
    trimap = opened("matting", tmp_path, "val", backgrounds=both)[0]["trimap"]
    assert trimap[0, 0].tolist() == [0.0] * 4 + [0.5] * 8 + [1.0] * 4


def alphamatting(root: Path, names: tuple[str, ...] = ("input_training_lowres", "gt_training_lowres")) -> None:
    for i in range(1, 9):
        photo(root / names[0] / f"GT{i:02}.png", i)
        matte = alphas(root / names[1] / f"GT{i:02}.png")
        save(root / names[1] / f"GT{i:02}.png", np.repeat(matte[..., None], 3, -1))
        save(root / "trimap_training_lowres" / "Trimap1" / f"GT{i:02}.png", np.full(SIZE, 128, np.uint8))


def test_alphamatting(tmp_path: Path) -> None:
    alphamatting(tmp_path)
    assert detect(tmp_path) == "alphamatting"
    train, val = opened("matting", tmp_path), opened("matting", tmp_path, "val")
    assert val.names == ["GT04", "GT08"]
    assert len(train) == 6
    sample = train[0]
    assert sample["alpha"].shape == (1, *SIZE)
    assert sample["alpha"].max() == 1
    assert (sample["trimap"] == 0.5).all()
    assert "fg" not in sample


def test_alphamatting_over_backgrounds(tmp_path: Path) -> None:
    alphamatting(tmp_path)
    for i in range(8):
        photo(tmp_path / "behind" / f"{i}.jpg", 50 + i, (20, 20))
    data = opened("matting", f"{tmp_path}?backgrounds={tmp_path / 'behind'}&copies=3")
    assert len(data) == 18
    first, again = data[7], opened("matting", tmp_path, backgrounds=str(tmp_path / "behind"), copies=3)[7]
    assert torch.equal(first["image"], again["image"])
    assert not torch.equal(data[1]["bg"], data[7]["bg"])
    composed = first["alpha"] * first["fg"] + (1 - first["alpha"]) * first["bg"]
    assert torch.allclose(first["image"].as_subclass(torch.Tensor), composed.as_subclass(torch.Tensor), atol=1e-6)
    with pytest.raises(FileNotFoundError, match="no images to serve as backgrounds"):
        open_data("matting", tmp_path, backgrounds=str(tmp_path / "nothing"))


def test_the_foreground_of_a_composite_is_found_again() -> None:
    """Two plain colours with a soft edge between them."""
    alpha = torch.linspace(-4.5, 5.5, 200).clamp(0, 1).expand(1, 150, 200)
    red, blue = torch.tensor([0.9, 0.2, 0.1])[:, None, None], torch.tensor([0.1, 0.3, 0.8])[:, None, None]
    found = foreground(alpha * red + (1 - alpha) * blue, alpha)
    partly = ((alpha > 0.2) & (alpha < 0.9)).expand(3, -1, -1)
    assert partly.any()
    mixed = (alpha * red + (1 - alpha) * blue - red).abs()
    assert (found - red).abs()[partly].max() < 0.2
    assert (found - red).abs()[partly].mean() < mixed[partly].mean() / 3


def test_backgrounds_are_enlarged_no_more_than_needed(tmp_path: Path) -> None:
    drawn = photo(tmp_path / "bg.png", size=(20, 30))
    assert np.array_equal(background(tmp_path / "bg.png", (12, 16)), drawn[:12, :16])
    assert np.array_equal(background(tmp_path / "bg.png", (12, 16), (1.0, 1.0)), drawn[8:, 14:])
    assert background(tmp_path / "bg.png", (40, 16)).shape == (40, 16, 3)


# any folder


def test_folder_of_images_and_masks(tmp_path: Path) -> None:
    for i in range(10):
        photo(tmp_path / "images" / f"{i}.jpg", i)
        labels(tmp_path / "masks" / f"{i}.png", [0, 2, 255])
    assert detect(tmp_path) == "folder"
    train, val = opened("segmentation", tmp_path), opened("segmentation", tmp_path, "val")
    # every fifth is for validation
    assert val.names == ["4", "9"]
    assert len(train) == 8
    assert train.classes == ["0", "1", "2"]
    assert train[0]["mask"][0, :3].tolist() == [0, 2, 255]
    assert opened("segmentation", f"{tmp_path}?classes=sky,tree,car")[0]["mask"].max() == 255
    (tmp_path / "classes.txt").write_text("sky\ntree\n")
    with pytest.raises(
        BadSample, match=r"0.png: has the label 2, and there are 2 classes from 0 on; \[255\] are ignored"
    ):
        opened("segmentation", tmp_path)[0]
    (tmp_path / "val.txt").write_text("images/3.jpg\n5\n")
    assert opened("segmentation", tmp_path, "val").names == ["3", "5"]
    # what is measured is not learned, though nobody lists what is
    assert opened("segmentation", tmp_path).names == [name for name in "0123456789" if name not in "35"]
    (tmp_path / "train.txt").write_text("7\n")
    assert opened("segmentation", tmp_path).names == ["7"]
    (tmp_path / "val.txt").unlink()
    assert "7" not in opened("segmentation", tmp_path, "val").names
    (tmp_path / "train.txt").rename(tmp_path / "val.txt")
    with pytest.raises(FileNotFoundError, match=r"lists for val, but none for test: write test.txt"):
        opened("segmentation", tmp_path, "test")


@pytest.mark.parametrize("place", ["{split}/images/{name}", "images/{split}/{name}"])
def test_folder_with_splits_above_or_below(tmp_path: Path, place: str) -> None:
    for split, name in (("train", "a"), ("val", "b")):
        path = tmp_path / place.format(split=split, name=name)
        photo(path.with_suffix(".jpg"))
        labels(Path(str(path).replace("images", "masks")).with_suffix(".png"), [1])
    assert opened("segmentation", tmp_path).names == ["a"]
    assert opened("segmentation", tmp_path, "val").names == ["b"]


def test_folder_of_depths_and_of_mattes(tmp_path: Path) -> None:
    photo(tmp_path / "images" / "a.jpg")
    save(tmp_path / "depth" / "a.png", np.full(SIZE, 1500, np.uint16))
    alphas(tmp_path / "alpha" / "a.png")
    assert (opened("depth", tmp_path)[0]["depth"] == 1.5).all()
    assert set(opened("matting", tmp_path)[0]["trimap"].unique().tolist()) == {0, 0.5, 1}
    save(tmp_path / "depth" / "a.png", np.full(SIZE, 51, np.uint8))
    with pytest.raises(BadSample, match=r"say what one metre is, as in FOLDER\?scale=25.5"):
        opened("depth", tmp_path)[0]
    assert (opened("depth", f"{tmp_path}?scale=25.5")[0]["depth"] == 2).all()
    for folder in ("images", "alpha", "trimaps"):
        save(tmp_path / "below" / folder / "train" / "b.png", np.full(SIZE, 128, np.uint8))
    assert (opened("matting", tmp_path / "below")[0]["trimap"] == 0.5).all()


# what is wrong


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


@pytest.mark.parametrize(
    ("break_it", "reason"),
    [
        (lambda root: cut(root / "train" / "a.png"), r"a.png: is broken, or no image"),
        (lambda root: (root / "train" / "a.png").write_text("text"), r"a.png: is broken, or no image"),
        (lambda root: (root / "trainannot" / "a.png").unlink(), r"a.png: has no annotation"),
        (lambda root: cut(root / "trainannot" / "a.png"), r"trainannot/a.png: is broken"),
        (
            lambda root: labels(root / "trainannot" / "a.png", [1], (5, 5)),
            r"is \(5, 5\) \(H W\), and its image is \(12, 16\)",
        ),
        (lambda root: photo(root / "trainannot" / "a.png"), r"has colours, and a mask must be grey"),
        (lambda root: labels(root / "trainannot" / "a.png", [12]), r"has the label 12, and there are 11 classes"),
    ],
)
def test_a_bad_sample_is_one_sample(tmp_path: Path, break_it: Callable[[Path], object], reason: str) -> None:
    camvid(tmp_path)
    break_it(tmp_path)
    data = opened("segmentation", tmp_path)
    assert len(data) == 2
    with pytest.raises(BadSample, match=reason):
        data[0]
    assert data[1]["name"] == "b"


def test_a_bad_sample_leaves_a_worker_as_what_it_is(tmp_path: Path) -> None:
    camvid(tmp_path)
    cut(tmp_path / "train" / "b.png")
    loader = DataLoader(opened("segmentation", tmp_path), batch_size=2, num_workers=1, collate_fn=collate)
    with pytest.raises(BadSample, match=r"b.png: is broken"):
        next(iter(loader))


def test_an_unknown_layout_says_what_was_looked_for(tmp_path: Path) -> None:
    (tmp_path / "stuff").mkdir()
    with pytest.raises(ValueError, match="has no layout that is known") as error:
        open_data("segmentation", tmp_path)
    assert all(f"  {name}: " in str(error.value) for name in LAYOUTS)
    with pytest.raises(FileNotFoundError, match="there is no such folder"):
        open_data("segmentation", tmp_path / "nowhere")


def test_the_docs_list_every_layout_with_its_tasks() -> None:
    rows = re.findall(r"^\| `(\w+)` \| ([\w, ]+) \|", (ROOT / "docs" / "data.md").read_text(), re.MULTILINE)
    assert rows == [(name, ", ".join(import_module(home).TASKS)) for name, home in LAYOUTS.items()]


def test_what_a_layout_does_not_have(tmp_path: Path) -> None:
    camvid(tmp_path)
    with pytest.raises(ValueError, match="is camvid, which has segmentation, not depth"):
        open_data("depth", tmp_path)
    with pytest.raises(ValueError, match=r"is camvid, which has no option 'copies' here. Available: none"):
        open_data("segmentation", f"{tmp_path}?copies=2")
    with pytest.raises(
        ValueError, match=r"builtin: is the built-in scenes, which has no option 'length' here. Available: none"
    ):
        open_data("segmentation", "builtin?length=4")
    with pytest.raises(
        ValueError, match=r"is a set of the hub, which has no option 'colum' here. Available: image, target"
    ):
        open_data("segmentation", "hub:somebody/something?colum=4")
    with pytest.raises(ValueError, match=r"no split 'training'. Did you mean 'train'"):
        open_data("segmentation", tmp_path, "training")
    with pytest.raises(ValueError, match=r"no task 'segmentations'. Did you mean 'segmentation'"):
        open_data("segmentations", tmp_path)


# batches and the hub


def test_collate_stacks_maps_and_lists_boxes() -> None:
    batch = collate([Scenes("detection", 3, (32, 40))[i] for i in range(3)])
    assert batch["image"].shape == (3, 3, 32, 40)
    assert type(batch["image"]) is torch.Tensor
    assert [type(boxes) for boxes in batch["boxes"]] == [torch.Tensor] * 3
    assert batch["image_id"] == [0, 1, 2]
    sizes = collate([Scenes("depth", 1, size)[0] for size in ((16, 16), (16, 18))])
    assert [tuple(image.shape) for image in sizes["image"]] == [(3, 16, 16), (3, 16, 18)]


@pytest.fixture
def parquet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of two files, as a set on the hub has them; the third image is broken, the fourth has no mask."""
    import datasets

    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", str(tmp_path / "cache"))
    # after each epoch that mixes files, where it waits for threads to end
    monkeypatch.setattr("datasets.config.SLEEP_TIME_ON_THREADS_SHUTDOWN", 0.2)
    folder = tmp_path / "set"
    (folder / "data").mkdir(parents=True)
    rows = []
    for i in range(6):
        photo(tmp_path / f"{i}.png", i)
        labels(tmp_path / f"m{i}.png", [0, 1, 2])
        rows.append({"image": {"bytes": (tmp_path / f"{i}.png").read_bytes(), "path": None}})
        rows[-1]["annotation"] = {"bytes": (tmp_path / f"m{i}.png").read_bytes(), "path": None}
        rows[-1]["objects"] = {"bbox": [[1.0, 2.0, 3.0, 4.0]] * i, "category": [i % 2] * i}
    rows[2]["image"]["bytes"] = b"broken"
    rows[3]["annotation"] = None
    features = datasets.Features(
        image=datasets.Image(),
        annotation=datasets.Image(),
        objects={
            "bbox": datasets.List(datasets.List(datasets.Value("float32"), length=4)),
            "category": datasets.List(datasets.ClassLabel(names=["cat", "dog"])),
        },
    )
    for part in range(2):
        table = datasets.Dataset.from_list(rows[3 * part : 3 * part + 3], features=features)
        table.to_parquet(folder / "data" / f"train-{part:05}-of-00002.parquet")
    return folder


def read_through(data: Hub) -> tuple[list[dict[str, Any]], list[str]]:
    samples, errors = [], []
    stream = iter(data)
    while True:
        try:
            samples.append(next(stream))
        except BadSample as error:
            errors.append(str(error))
        except StopIteration:
            return samples, errors


def test_hub_streams_and_goes_on_after_a_broken_sample(parquet: Path) -> None:
    data = open_data("segmentation", f"hub:{parquet}?first=1&classes=wall,floor")
    assert isinstance(data, Hub)
    assert data.classes == ["wall", "floor"]
    samples, errors = read_through(data)
    assert [sample["name"].split()[-1] for sample in samples] == ["0", "1", "4", "5"]
    assert samples[0]["mask"][0, :3].tolist() == [255, 0, 1]
    assert equals(samples[3]["image"], photo(parquet / "x.png", 5))
    assert "2 image: is broken" in errors[0]
    assert "3: has no annotation: annotation is empty" in errors[1]


def test_hub_refuses_labels_that_are_no_class(parquet: Path) -> None:
    with pytest.raises(BadSample, match="has the label 2, and there are 2 classes from 0 on; 255 is ignored"):
        next(iter(open_data("segmentation", f"hub:{parquet}?classes=wall,floor")))
    boxes = iter(open_data("detection", f"hub:{parquet}?classes=cat"))
    next(boxes)
    with pytest.raises(BadSample, match="the label 1 is none of 1 classes from 0 on"):
        next(boxes)


def test_hub_gives_boxes_and_finds_their_classes(parquet: Path) -> None:
    data = open_data("detection", f"hub:{parquet}?take=2")
    assert isinstance(data, Hub)
    assert data.classes == ["cat", "dog"]
    empty, one = data
    assert empty["boxes"].shape == (0, 4)
    assert one["boxes"].tolist() == [[1, 2, 4, 6]]
    assert one["labels"].tolist() == [1]
    assert one["area"].tolist() == [12]


def test_hub_shuffles_each_epoch_anew(parquet: Path) -> None:
    data = open_data("detection", f"hub:{parquet}?shuffle=6&seed=3")
    assert isinstance(data, Hub)
    orders = []
    for epoch in (0, 1, 0):
        data.set_epoch(epoch)
        orders.append([len(sample["labels"]) for sample in read_through(data)[0]])
    assert orders[0] == orders[2] != orders[1]
    assert sorted(orders[0]) == [0, 1, 3, 4, 5]


def test_hub_deals_its_files_to_the_workers(parquet: Path) -> None:
    data = open_data("detection", f"hub:{parquet}")
    assert isinstance(data, Hub)
    data.stream = data.stream.filter(lambda row: len(row["objects"]["category"]) != 2)  # the broken one
    loader = DataLoader(data, batch_size=None, num_workers=2)
    assert sorted(len(sample["labels"]) for sample in loader) == [0, 1, 3, 4, 5]


def test_hub_says_which_columns_there_are(parquet: Path) -> None:
    with pytest.raises(ValueError, match=r"which column is the target\? There is image, annotation, objects"):
        open_data("depth", f"hub:{parquet}")
    with pytest.raises(ValueError, match=r"has no val; there is train"):
        open_data("detection", f"hub:{parquet}", "val")
