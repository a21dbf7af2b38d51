"""The comparison of guided upsampling: its metrics by hand, its methods, its table."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from bench import report
from bench.guided import metrics, sets, table
from bench.guided.methods import METHODS, filled, upsampled
from bench.guided.sets import Example


def square(top: int, left: int, side: int = 8, size: int = 20) -> torch.Tensor:
    mask = torch.zeros(1, 1, size, size, dtype=torch.bool)
    mask[..., top : top + side, left : left + side] = True
    return mask


def test_errors_of_values_by_hand() -> None:
    truth = torch.tensor([[[[1.0, 2.0, 4.0, math.nan]]]])
    y = torch.tensor([[[[1.0, 3.5, 4.0, 9.0]]]])
    photo = torch.zeros(1, 3, 1, 4, dtype=torch.uint8)
    found = metrics.errors("motorcycle", y, Example(photo, truth))
    assert found == pytest.approx({"RMSE": math.sqrt(2.25 / 3), "mean error": 0.5, "bad pixels": 1 / 3})
    assert metrics.errors("NYU", y, Example(photo, truth))["bad pixels"] == pytest.approx(1 / 3)
    assert metrics.errors("matting", y, Example(photo, truth))["SAD"] == pytest.approx(0.0015)


def test_errors_of_labels_by_hand() -> None:
    truth = torch.tensor([[[[0, 0, 1, 1, 11]]]])
    y = torch.tensor([[[[0, 1, 1, 1, 3]]]])
    found = metrics.errors("CamVid", y, Example(torch.zeros(1, 3, 1, 5, dtype=torch.uint8), truth))
    assert found["wrong pixels"] == pytest.approx(1 / 4)
    assert found["1 - mIoU"] == pytest.approx(1 - (1 / 2 + 2 / 3) / 2)


def test_edges_a_pixel_off_are_forgiven_and_two_are_not() -> None:
    known = torch.ones(1, 1, 20, 20, dtype=torch.bool)
    assert metrics.boundary_f(square(6, 6), square(6, 6), known) == 1
    assert metrics.boundary_f(square(6, 7), square(6, 6), known) == 1
    assert metrics.boundary_f(square(6, 9), square(6, 6), known) < 0.8
    assert metrics.boundary_f(square(6, 6) & False, square(6, 6), known) == 0


def test_the_band_of_a_square_is_its_rim() -> None:
    # 2 % of a diagonal of 28 is one pixel
    assert metrics.band(square(6, 6)).sum() == 8 * 8 - 6 * 6
    # the frame is an edge, too
    assert metrics.band(square(0, 0, 20)).sum() == 20 * 20 - 18 * 18


@pytest.mark.parametrize("name", METHODS)
def test_methods_keep_what_is_constant(name: str) -> None:
    photo = torch.randint(0, 256, (1, 3, 48, 64), dtype=torch.uint8)
    y = upsampled(METHODS[name], torch.full((1, 1, 6, 8), 2.5), photo, 8)
    torch.testing.assert_close(y, torch.full((1, 1, 48, 64), 2.5), rtol=0, atol=1e-3)
    classes = upsampled(METHODS[name], torch.full((1, 1, 6, 8), 7), photo, 8)
    assert torch.equal(classes, torch.full((1, 1, 48, 64), 7))


def test_filling_and_shrinking_leave_out_what_is_unknown() -> None:
    truth = torch.arange(64.0).view(1, 1, 8, 8)
    truth[..., :4, :4] = math.nan
    truth[..., 0, 4] = math.nan
    x = Example(torch.zeros(1, 3, 8, 8, dtype=torch.uint8), truth).shrunk(4)
    assert x[0, 0, 0, 0].isnan()
    assert x[0, 0, 0, 1] == truth[..., :4, 4:].nanmean()
    assert filled(x)[0, 0, 0, 0] == pytest.approx(float(x.nanmean()))
    classes = Example(torch.zeros(1, 3, 2, 2, dtype=torch.uint8), torch.tensor([[[[3, 5], [5, 11]]]]))
    assert classes.shrunk(2).item() == 5


def test_sets_are_read_from_their_layouts(tmp_path: Path) -> None:
    def save(path: str, pixels: np.ndarray) -> None:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(tmp_path / path)

    photo = np.full((480, 640, 3), 90, np.uint8)
    save("nyu/image/00001.jpg", photo)
    save("nyu/depth/00001.png", np.full((480, 640), 50, np.uint8))
    (tmp_path / "nyu" / "test.txt").write_text("00001\n00002\n")
    save("matting/image/GT01.png", photo[:40, :50])
    save("matting/alpha/GT01.png", np.full((40, 50, 3), 51, np.uint8))
    save("camvid/val/a.jpg", photo[:32, :32])
    save("camvid/valannot/a.png", np.full((32, 32), 11, np.uint8))
    found = {name: list(sets.SETS[name](tmp_path)) for name in ("NYU", "matting", "CamVid")}
    assert [len(examples) for examples in found.values()] == [1, 1, 1]
    assert found["NYU"][0].truth.shape == (1, 1, 416, 560)
    assert found["NYU"][0].truth.unique().item() == pytest.approx(50.5 / 25.51)
    assert found["matting"][0].truth.unique().item() == pytest.approx(0.2)
    assert found["CamVid"][0].is_labels
    assert found["CamVid"][0].photo.shape == (1, 3, 32, 32)


def test_ranks_share_places() -> None:
    of = {"guided_upsample": {"a": 1.0, "b": 2.0}, "bilinear": {"a": 2.0, "b": 2.0}, "nearest": {"a": 3.0, "b": 1.0}}
    quality = {"set": {"8": of}}
    assert table.ranks(quality, "8") == {"guided_upsample": 1.75, "bilinear": 2.25, "nearest": 2.0}
    assert table.worse_than_bilinear(quality) == []
    of["guided_upsample"]["b"] = 2.5
    assert table.worse_than_bilinear(quality) == ["set at 8x, b"]


def test_page_is_made_from_the_results() -> None:
    assert table.PAGE.read_text() == table.page()
    result = report.load("guided")
    assert set(result["quality"]) | set(result["left_out"]) == set(sets.SETS)
    assert set(result["times"]["depth"]) == set(METHODS)
