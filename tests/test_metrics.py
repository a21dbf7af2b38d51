"""The metrics against tables made by hand, against other implementations of their definitions, and in pieces."""

import math
import multiprocessing
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import ndimage
from torch import Tensor, tensor
from torchmetrics import Metric

from sapa.tasks.metrics import DepthMetric, DetectionMetric, MattingMetric, SegmentationMetric


def close(value: Any) -> Any:
    return pytest.approx(value, rel=1e-9, abs=1e-9)


def measured(metric: Metric, *batch: Any) -> dict[str, float]:
    metric.update(*batch)
    return metric.compute()


# segmentation


def blobs(seed: int, classes: int = 4, size: tuple[int, int] = (40, 56), ignored: float = 0.1) -> tuple[Tensor, Tensor]:
    """A truth of regions with some of it ignored, and a prediction that is wrong near its boundaries."""
    random = np.random.default_rng(seed)
    fields = ndimage.gaussian_filter(random.standard_normal((classes, *size)), (0, 5, 5))
    noise = ndimage.gaussian_filter(random.standard_normal((classes, *size)), (0, 2, 2))
    truth, found = fields.argmax(0), (fields + 0.25 * noise).argmax(0)
    truth[ndimage.gaussian_filter(random.standard_normal(size), 4) > np.quantile(noise, 1 - ignored)] = 255
    return torch.from_numpy(found)[None], torch.from_numpy(truth)[None]


def test_iou_of_a_table_made_by_hand() -> None:
    truth = tensor([[[0, 0, 1, 1], [0, 0, 1, 255], [2, 2, 1, 255]]])
    found = tensor([[[0, 1, 1, 1], [0, 0, 1, 2], [2, 0, 1, 0]]])
    result = measured(SegmentationMetric(["a", "b", "c"]), found, truth)
    # intersections 3 4 1; truth 4 4 2; prediction 4 5 1, where ignored pixels do not count
    assert result["IoU a"] == pytest.approx(100 * 3 / 5)
    assert result["IoU b"] == pytest.approx(100 * 4 / 5)
    assert result["IoU c"] == pytest.approx(100 * 1 / 2)
    assert result["mIoU"] == pytest.approx(100 * (0.6 + 0.8 + 0.5) / 3)
    assert result["pixel accuracy"] == pytest.approx(80.0)


def test_boundary_iou_of_a_table_made_by_hand() -> None:
    """A square of 6 moved by one: with a band of one pixel, rings of 20 share the 5 + 4 of two sides."""
    truth, found = torch.zeros(2, 1, 20, 20, dtype=torch.int64)
    truth[0, 6:12, 6:12] = 1
    found[0, 7:13, 6:12] = 1
    metric = SegmentationMetric(2)
    metric.update(found, truth)
    assert metric.band_true.tolist()[1] == metric.band_predicted.tolist()[1] == 20
    # the upright sides meet in 5 rows each; the level ones not at all, but that one end of each is in the other's side
    both = sum(
        truth_ring == 1 and found_ring == 1
        for truth_ring, found_ring in zip(ring(6, 6).flatten().tolist(), ring(7, 6).flatten().tolist(), strict=True)
    )
    assert both == 10
    assert metric.band_both.tolist()[1] == both
    # contours lie one pixel apart at most, and the tolerance is 0.2 of a pixel
    assert metric.contour_true.tolist()[1] == 20
    assert metric.hit_true.tolist()[1] == both


def ring(top: int, left: int) -> Tensor:
    drawn = torch.zeros(20, 20)
    drawn[top : top + 6, left : left + 6] = 1
    drawn[top + 1 : top + 5, left + 1 : left + 5] = 0
    return drawn


@pytest.mark.parametrize("seed", range(4))
def test_segmentation_against_another_implementation(seed: int) -> None:
    size = ((40, 56), (40, 56), (95, 61), (33, 140))[seed]
    metric = SegmentationMetric(4)
    pieces = [blobs(10 * seed + i, size=size, ignored=(0.0, 0.1)[i % 2]) for i in range(3)]
    for found, truth in pieces:
        metric.update(found, truth)
    expected = by_class([(found[0].numpy(), truth[0].numpy()) for found, truth in pieces], 4)
    result = metric.compute()
    for name, value in expected.items():
        assert result[name] == close(100 * value), name


def by_class(pairs: list[tuple[np.ndarray, np.ndarray]], classes: int) -> dict[str, float]:
    """Each class by itself: erosion and distances of scipy, counts by numpy."""
    counts = np.zeros((classes, 8))
    for found, truth in pairs:
        void = truth == 255
        diagonal = math.hypot(*truth.shape)
        width, reach = max(1, round(0.02 * diagonal)), 0.0075 * diagonal
        for c in range(classes):
            masks = [(labels == c) & ~void for labels in (found, truth)]
            bands = [mask & ~eroded(mask | void, width) for mask in masks]
            lines = [outline(mask, void) for mask in masks]
            hits = []
            for own, other in (lines, lines[::-1]):
                distance = np.asarray(ndimage.distance_transform_edt(~other))
                hits.append((own & (distance <= reach)).sum() if other.any() else 0)
            sums = [(masks[0] & masks[1]).sum(), (masks[0] | masks[1]).sum()]
            near = [(bands[0] & bands[1]).sum(), (bands[0] | bands[1]).sum()]
            counts[c] += [*sums, *near, *hits, lines[0].sum(), lines[1].sum()]
    both, either, near, around, hit, found_again, drawn, true = counts.T
    with np.errstate(invalid="ignore"):
        precision, recall = hit / drawn, found_again / true
        return {
            "mIoU": float(np.nanmean(both / either)),
            "boundary IoU": float(np.nanmean(near / around)),
            "boundary F": float(np.nanmean(2 * precision * recall / (precision + recall))),
            **{f"IoU {c}": float(both[c] / either[c]) for c in range(classes)},
        }


def eroded(mask: np.ndarray, times: int) -> np.ndarray:
    return np.asarray(ndimage.binary_erosion(mask, np.ones((3, 3)), iterations=times, border_value=0), bool)


def outline(mask: np.ndarray, void: np.ndarray) -> np.ndarray:
    """Pixels of a mask beside a pixel that is neither in it nor ignored, one by one."""
    H, W = mask.shape
    drawn = np.zeros_like(mask)
    for y in range(H):
        for x in range(W):
            around = [(y - 1, x), (y + 1, x), (y, x - 1), (y, x + 1)]
            other = [0 <= v < H and 0 <= u < W and not mask[v, u] and not void[v, u] for v, u in around]
            drawn[y, x] = mask[y, x] and any(other)
    return drawn


def test_logits_and_labels_give_the_same() -> None:
    found, truth = blobs(3)
    logits = torch.nn.functional.one_hot(found, 4).permute(0, 3, 1, 2) * torch.rand(1, 1, 40, 56)
    assert measured(SegmentationMetric(4), logits, truth) == measured(SegmentationMetric(4), found, truth)


def test_a_class_that_is_nowhere_counts_nowhere_and_one_that_is_only_predicted_counts_as_wrong() -> None:
    truth = tensor([[[0, 0], [1, 1]]])
    nowhere = measured(SegmentationMetric(3), truth, truth)
    assert nowhere["mIoU"] == 100
    assert nowhere["boundary IoU"] == nowhere["boundary F"] == 100
    assert math.isnan(nowhere["IoU 2"])
    predicted = measured(SegmentationMetric(3), tensor([[[0, 2], [1, 1]]]), truth)
    assert predicted["IoU 2"] == 0
    assert predicted["mIoU"] == pytest.approx(100 * (0.5 + 1 + 0) / 3)


def test_where_all_is_ignored_there_is_no_number() -> None:
    result = measured(SegmentationMetric(2), torch.zeros(1, 4, 4).long(), torch.full((1, 4, 4), 255))
    assert all(math.isnan(value) for value in result.values())


def test_what_is_ignored_makes_no_boundary() -> None:
    truth = torch.zeros(1, 30, 30, dtype=torch.int64)
    truth[:, 12:18] = 255
    metric = SegmentationMetric(2)
    metric.update(torch.zeros_like(truth), truth)
    assert int(metric.contour_true.sum()) == 0
    # the frame alone: a band of one pixel, without the two gaps
    assert int(metric.band_true.sum()) == 4 * 29 - 2 * 6


def test_segmentation_says_what_is_wrong() -> None:
    truth = torch.zeros(1, 4, 4).long()
    with pytest.raises(ValueError, match=r"mask has the label 7, and there are 2 classes"):
        SegmentationMetric(2).update(truth, truth + 7)
    with pytest.raises(ValueError, match=r"Resize the prediction to the size of the truth"):
        SegmentationMetric(2).update(torch.zeros(1, 2, 2, 2), truth)


# depth


def test_depth_of_a_table_made_by_hand() -> None:
    truth = tensor([[[[2.0, 4.0, 0.0, 11.0]]]])
    found = tensor([[[[1.0, 5.0, 3.0, 3.0]]]])
    result = measured(DepthMetric(), found, truth)
    # ratios 2 and 1.25, which is not below 1.25
    assert result["δ<1.25"] == 0
    assert result["δ<1.25²"] == result["δ<1.25³"] == 0.5
    assert result["Abs Rel"] == pytest.approx((1 / 2 + 1 / 4) / 2)
    assert result["Sq Rel"] == pytest.approx((1 / 2 + 1 / 4) / 2)
    assert result["RMS"] == pytest.approx(1)
    assert result["RMS log"] == pytest.approx(math.sqrt((math.log(2) ** 2 + math.log(1.25) ** 2) / 2))
    assert result["log10"] == pytest.approx((math.log10(2) + math.log10(1.25)) / 2)


def test_depth_against_a_plain_loop() -> None:
    random = np.random.default_rng(0)
    truth = random.uniform(0.5, 12, (5, 1, 9, 7)) * (random.uniform(size=(5, 1, 9, 7)) > 0.3)
    truth[3] = 0  # nothing is known of this one
    found = random.uniform(0.5, 14, truth.shape)
    images = []
    for f, t in zip(found, truth, strict=True):
        pairs = [(min(a, 10.0), b) for a, b in zip(f.flat, t.flat, strict=True) if 1e-3 < b < 10]
        if not pairs:
            continue
        n = len(pairs)
        images.append(
            [
                *(sum(max(a / b, b / a) < 1.25**k for a, b in pairs) / n for k in (1, 2, 3)),
                sum(abs(a - b) / b for a, b in pairs) / n,
                sum((a - b) ** 2 / b for a, b in pairs) / n,
                math.sqrt(sum((a - b) ** 2 for a, b in pairs) / n),
                math.sqrt(sum((math.log(a) - math.log(b)) ** 2 for a, b in pairs) / n),
                sum(abs(math.log10(a) - math.log10(b)) for a, b in pairs) / n,
            ]
        )
    assert len(images) == 4
    result = measured(DepthMetric(max_depth=10), torch.from_numpy(found), torch.from_numpy(truth))
    assert list(result.values()) == close(np.mean(images, axis=0).tolist())


def test_a_depth_that_is_not_a_number_shows() -> None:
    assert math.isnan(measured(DepthMetric(), torch.full((1, 1, 2, 2), torch.nan), torch.ones(1, 1, 2, 2))["RMS"])


# matting


def mattes(seed: int, size: tuple[int, int] = (24, 31)) -> tuple[Tensor, Tensor, Tensor]:
    random = np.random.default_rng(seed)
    field = ndimage.gaussian_filter(random.standard_normal(size), 3)
    truth = np.clip(0.5 + 6 * field, 0, 1)
    found = np.clip(truth + 0.5 * ndimage.gaussian_filter(random.standard_normal(size), 1), 0, 1)
    trimap = np.where((truth > 0) & (truth < 1), 0.5, truth)
    return tuple(torch.from_numpy(x)[None, None] for x in (found, truth, trimap))  # type: ignore[return-value]


def test_matting_of_a_table_made_by_hand() -> None:
    """Two unknown pixels, 0.3 and 0.1 off; the wrong known one is taken from the trimap."""
    truth = tensor([[[[1.0, 0.8, 0.3, 0.0]]]]).double()
    found = tensor([[[[1.0, 0.5, 0.4, 0.9]]]]).double()
    result = measured(MattingMetric(), found, truth, tensor([[[[1.0, 0.5, 0.5, 0.0]]]]))
    assert result["SAD"] == pytest.approx(0.4 / 1000)
    assert result["MSE"] == pytest.approx((0.09 + 0.01) / 2 * 1000)
    # connected to the opaque pixel down to 0.5 and 0.3: there the truth is 0.3 and 0 above, the prediction 0 and 0.1;
    # the last is below 0.15 and does not count
    assert result["Conn"] == pytest.approx(0.3 / 1000)


@pytest.mark.parametrize("seed", range(3))
def test_matting_against_another_implementation(seed: int) -> None:
    found, truth, trimap = mattes(seed)
    result = measured(MattingMetric(), found, truth, trimap)
    f, t, unknown = found[0, 0].numpy(), truth[0, 0].numpy(), (trimap[0, 0] == 0.5).numpy()
    f = np.where(unknown, f, trimap[0, 0].numpy())
    assert result["SAD"] == close(np.abs(f - t)[unknown].sum() / 1000)
    assert result["MSE"] == close(((f - t) ** 2)[unknown].mean() * 1000)
    assert result["Grad"] == close(((steepness(f) - steepness(t)) ** 2)[unknown].sum() / 1000)
    assert result["Conn"] == close(unconnected(f, t, unknown) / 1000)
    assert result["Conn"] > 0
    assert result["Grad"] > 0


def steepness(alpha: np.ndarray) -> np.ndarray:
    """With the filter written out: derivatives of a Gaussian of 1.4, as far as they are above 1 %, of norm 1."""
    sigma, radius = 1.4, 4
    assert radius == math.ceil(sigma * math.sqrt(-2 * math.log(math.sqrt(2 * math.pi) * sigma * 0.01)))
    kernel = np.zeros((9, 9))
    for y in range(-4, 5):
        for x in range(-4, 5):
            bell = math.exp(-(x * x + y * y) / (2 * sigma**2)) / (2 * math.pi * sigma**2)
            kernel[y + 4, x + 4] = -x * bell / sigma**2
    kernel /= math.sqrt((kernel**2).sum())
    return np.hypot(*(ndimage.convolve(alpha, k, mode="nearest") for k in (kernel, kernel.T)))


def unconnected(found: np.ndarray, truth: np.ndarray, unknown: np.ndarray) -> float:
    """By flooding, pixel after pixel."""
    H, W = truth.shape
    level = np.full((H, W), -1.0)
    for step in range(1, 11):
        both = {(y, x) for y in range(H) for x in range(W) if min(found[y, x], truth[y, x]) >= step * 0.1}
        largest: set[tuple[int, int]] = set()
        rest = set(both)
        for seed in sorted(both):
            if seed not in rest:
                continue
            region, edge = {seed}, [seed]
            rest.discard(seed)
            while edge:
                y, x = edge.pop()
                for n in ((y - 1, x), (y + 1, x), (y, x - 1), (y, x + 1)):
                    if n in rest:
                        rest.discard(n)
                        region.add(n)
                        edge.append(n)
            largest = region if len(region) > len(largest) else largest
        for y in range(H):
            for x in range(W):
                if level[y, x] < 0 and (y, x) not in largest:
                    level[y, x] = (step - 1) * 0.1
    level[level < 0] = 1
    degrees = [1 - d * (d >= 0.15) for d in (found - level, truth - level)]
    return float(np.abs(degrees[0] - degrees[1])[unknown].sum())


def test_a_matte_without_an_unknown_region_is_left_out() -> None:
    found, truth, trimap = mattes(0)
    metric = MattingMetric()
    metric.update(truth, truth, (truth > 0.5).double())
    metric.update(found, truth, trimap)
    assert metric.compute() == measured(MattingMetric(), found, truth, trimap)


# detection


def boxed(rows: list[list[float]], labels: list[int], **more: Any) -> dict[str, Any]:
    return {"boxes": tensor(rows).reshape(-1, 4), "labels": tensor(labels, dtype=torch.int64), **more}


def test_precision_of_a_table_made_by_hand() -> None:
    """One box of IoU 0.625, right at 0.50, 0.55 and 0.60 of ten thresholds; the other class is found exactly, after a
    mistake of a higher score: precision is 1/2 at all recalls."""
    truth = boxed([[0, 0, 40, 40], [50, 50, 150, 150]], [0, 1], image_id=7)
    found = boxed([[0, 0, 40, 25], [0, 0, 9, 9], [50, 50, 150, 150]], [0, 1, 1], scores=tensor([0.9, 0.8, 0.7]))
    result = measured(DetectionMetric(["a", "b", "c"]), [found], [truth])
    assert result["AP a"] == pytest.approx(30)
    assert result["AP b"] == pytest.approx(50)
    assert result["AP"] == pytest.approx(40)
    assert result["AP50"] == pytest.approx(75)
    assert result["AP75"] == pytest.approx(25)
    # 40 x 40 is medium, 100 x 100 large, and the mistake of 9 x 9 is neither
    assert math.isnan(result["APs"])
    assert result["APm"] == pytest.approx(30)
    assert result["APl"] == pytest.approx(100)
    assert math.isnan(result["AP c"])


def scattered(images: int, classes: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    generator = torch.Generator().manual_seed(images)
    predictions, targets = [], []
    for i in range(images):
        n = int(torch.randint(6, (), generator=generator))
        corner = 60 * torch.rand(n, 2, generator=generator)
        boxes = torch.cat([corner, corner + 8 + 40 * torch.rand(n, 2, generator=generator)], 1)
        labels = torch.randint(classes, (n,), generator=generator)
        targets.append({"boxes": boxes, "labels": labels, "image_id": 100 - i})
        near = boxes + 4 * torch.randn(n, 4, generator=generator)
        stray = torch.tensor([[1.0, 1, 20, 20], [30, 30, 50, 70]])
        found = torch.cat([near, stray])
        found[:, 2:] = found[:, 2:].maximum(found[:, :2] + 1)
        picked = torch.cat([labels, torch.randint(classes, (2,), generator=generator)])
        # two digits, so that scores are often the same
        scores = (torch.rand(n + 2, generator=generator) * 100).round() / 100
        predictions.append({"boxes": found, "labels": picked, "scores": scores})
    return predictions, targets


def test_precision_against_another_implementation() -> None:
    predictions, targets = scattered(12, 3)
    expected = np.zeros((10, 3))
    for k, threshold in enumerate(np.arange(10) * 0.05 + 0.5):
        for c in range(3):
            expected[k, c] = average_precision(predictions, targets, c, threshold)
    result = measured(DetectionMetric(3), predictions, targets)
    assert result["AP"] == close(100 * expected.mean())
    assert result["AP50"] == close(100 * expected[0].mean())
    assert result["AP75"] == close(100 * expected[5].mean())
    assert 5 < result["AP"] < 90


def average_precision(predictions: list[dict], targets: list[dict], c: int, threshold: float) -> float:
    """Greedy matching by score, then the mean of the highest precision at or beyond each of 101 recalls."""
    scored, objects = [], 0
    order = sorted(range(len(targets)), key=lambda i: targets[i]["image_id"])
    for i in order:
        truth = [
            box for box, label in zip(targets[i]["boxes"].double(), targets[i]["labels"], strict=True) if label == c
        ]
        objects += len(truth)
        taken: set[int] = set()
        mine = (predictions[i]["labels"] == c).nonzero().flatten().tolist()
        for j in sorted(mine, key=lambda j: -float(predictions[i]["scores"][j])):
            box = predictions[i]["boxes"][j].double()
            best, at = threshold, -1
            for k, other in enumerate(truth):
                if k not in taken and overlap(box, other) >= best:
                    best, at = overlap(box, other), k
            taken.add(at)
            scored.append((-float(predictions[i]["scores"][j]), at >= 0))
    hits = np.cumsum([hit for _, hit in sorted(scored, key=lambda pair: pair[0])])
    recalls, precisions = hits / objects, hits / np.arange(1, len(hits) + 1)
    at_recall = [
        max([p for p, r in zip(precisions, recalls, strict=True) if r >= t], default=0) for t in np.linspace(0, 1, 101)
    ]
    return sum(at_recall) / 101


def overlap(a: Tensor, b: Tensor) -> float:
    low, high = torch.maximum(a[:2], b[:2]), torch.minimum(a[2:], b[2:])
    both = float((high - low).clamp(min=0).prod())
    return both / (float((a[2:] - a[:2]).prod()) + float((b[2:] - b[:2]).prod()) - both)


def test_crowds_are_no_mistakes_and_areas_are_those_of_the_outlines() -> None:
    truth = boxed([[0, 0, 50, 50], [60, 0, 160, 100]], [0, 0], image_id=1)
    truth |= {"crowd": tensor([False, True]), "area": tensor([900.0, 5000.0])}
    found = boxed([[0, 0, 50, 50], [70, 10, 110, 60]], [0, 0], scores=tensor([0.5, 0.9]))
    result = measured(DetectionMetric(1), [found], [truth])
    assert result["AP"] == pytest.approx(100)
    assert result["APs"] == pytest.approx(100)
    assert math.isnan(result["APm"])


def test_detection_without_anything() -> None:
    empty = boxed([], [], scores=torch.zeros(0))
    assert measured(DetectionMetric(2), [empty], [boxed([[0, 0, 9, 9]], [1], image_id=0)])["AP"] == 0
    assert math.isnan(measured(DetectionMetric(2), [empty], [boxed([], [], image_id=0)])["AP"])


# in pieces


def detections(i: int) -> tuple[Any, ...]:
    predictions, targets = scattered(12, 3)
    return predictions[2 * i : 2 * i + 2], targets[2 * i : 2 * i + 2]


def depths(i: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(i)
    found, truth = 0.5 + 8 * torch.rand(2, 2, 1, 8, 9, generator=generator)
    return found, truth


CASES: dict[str, tuple[Callable[[], Metric], Callable[[int], tuple[Any, ...]]]] = {
    "segmentation": (lambda: SegmentationMetric(4), blobs),
    "depth": (DepthMetric, depths),
    "matting": (MattingMetric, mattes),
    "detection": (lambda: DetectionMetric(3), detections),
}


@pytest.mark.parametrize("task", CASES)
@pytest.mark.parametrize("shares", [([5, 3], [0, 1, 2, 4]), ([0, 1, 2, 3, 4, 5], []), ([2], [4, 0], [1, 5, 3])])
def test_several_processes_find_what_one_finds(task: str, shares: tuple[list[int], ...]) -> None:
    make, batch = CASES[task]
    whole = make()
    for i in range(6):
        whole.update(*batch(i))
    parts = [make() for _ in shares]
    for part, share in zip(parts, shares, strict=True):
        for i in share:
            part.update(*batch(i))
    merged = gathered(parts)
    assert merged.compute() == pytest.approx(whole.compute(), rel=1e-13, nan_ok=True)
    assert math.isfinite(merged.compute()[merged.main])  # type: ignore[index]


def gathered(parts: list[Metric]) -> Metric:
    """What torchmetrics makes of the states of several processes: sums of tensors, one list of lists."""
    first = parts[0]
    for name, reduce in first._reductions.items():
        states = [getattr(part, name) for part in parts]
        if isinstance(states[0], list):
            assert reduce is not None
            setattr(first, name, [piece for state in states for piece in state])
        else:
            setattr(first, name, torch.stack(states).sum(0))
    first._computed = None
    return first


def in_one_of_two(rank: int, meeting: str, results: Any) -> None:
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
    for task, (make, batch) in CASES.items():
        for share in ([0, 1, 4], []), ([2], [0, 3]):
            metric = make()
            for i in share[rank]:
                metric.update(*batch(i))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of torchmetrics, about a process that saw nothing
                results.put((task, share, metric.compute()))
    torch.distributed.destroy_process_group()


def test_two_processes_that_talk_find_what_one_finds(tmp_path: Path) -> None:
    # forked, as workers of a loader are: to import everything anew takes longest
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    workers = [context.Process(target=in_one_of_two, args=(i, str(tmp_path / "meeting"), results)) for i in range(2)]
    for worker in workers:
        worker.start()
    found = [results.get(timeout=120) for _ in range(2 * 2 * len(CASES))]
    for worker in workers:
        worker.join()
    for task, share, result in found:
        make, batch = CASES[task]
        whole = make()
        for i in sorted(share[0] + share[1]):
            whole.update(*batch(i))
        assert result == pytest.approx(whole.compute(), rel=1e-13, nan_ok=True), (task, share)


@pytest.mark.parametrize("task", CASES)
def test_a_metric_keeps_no_image(task: str) -> None:
    """What it holds does not grow with the pixels; for detection it is eight numbers an object."""
    make, batch = CASES[task]
    metric = make()
    for i in range(6):
        metric.update(*batch(i))
    states = [getattr(metric, name) for name in metric._reductions]
    numbers = sum(piece.numel() for state in states for piece in (state if isinstance(state, list) else [state]))
    assert numbers < (8 * 150 if task == "detection" else 50)
