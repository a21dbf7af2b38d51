"""Measure every method on every set: `python -m bench.guided --data DIR`, and write the table of docs/guided.md.

DIR holds nyu (image, depth, test.txt), matting (image, alpha) and camvid (val, valannot); a set that is not there is
left out and the table says so. The motorcycle comes with scikit-image.
"""

import argparse
from pathlib import Path
from statistics import mean
from typing import Any

import cv2
import torch
from rich.progress import track

from bench import report
from bench.guided.methods import METHODS, upsampled
from bench.guided.metrics import METRICS, errors
from bench.guided.sets import SETS, Example
from bench.guided.table import write
from sapa.bench.timing import interleaved, threads

SCALES = (4, 8, 16)
TIMED = {"depth": (480, 640), "classes": (480, 640), "large depth": (1080, 1920)}
THREADS, SECONDS = 2, 2.0


def quality(root: Path, names: list[str]) -> dict[str, Any]:
    """Of each set the mean over its pictures: set, scale, method, metric."""
    result: dict[str, Any] = {}
    for name in names:
        found: dict[str, dict[str, list[dict[str, float]]]] = {str(s): {m: [] for m in METHODS} for s in SCALES}
        for example in track(list(SETS[name](root)), name):
            for scale in SCALES:
                x = example.shrunk(scale)
                for method, run in METHODS.items():
                    y = upsampled(run, x, example.photo, scale)
                    found[str(scale)][method].append(errors(name, y, example))
        result[name] = {
            scale: {
                method: {metric: mean(of[metric] for of in all_of) for metric in METRICS[name]}
                for method, all_of in methods.items()
            }
            for scale, methods in found.items()
        }
    return result


def times() -> dict[str, Any]:
    """From the low-res map and the photograph as bytes to the result, at 8x."""
    generator, result = torch.Generator().manual_seed(0), {}
    cv2.setNumThreads(THREADS)
    with threads(THREADS):
        for what, (H, W) in TIMED.items():
            photo = torch.randint(0, 256, (1, 3, H, W), dtype=torch.uint8, generator=generator)
            truth = torch.rand(1, 1, H, W, generator=generator)
            example = Example(photo, (11 * truth).long() if what == "classes" else truth)
            x = example.shrunk(8)
            calls = {
                name: (lambda run=run, x=x, photo=photo: upsampled(run, x, photo, 8)) for name, run in METHODS.items()
            }
            result[what] = interleaved(calls, SECONDS)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder with nyu, matting and camvid")
    parser.add_argument("--times", action="store_true", help="measure the times alone, and keep the quality as it is")
    arguments = parser.parse_args()
    result = report.begin(SECONDS, quick=False)
    if arguments.times:
        result |= {key: report.load("guided")[key] for key in ("quality", "left_out")}
    else:
        root = arguments.data or Path()
        folders = {"NYU": "nyu", "matting": "matting", "CamVid": "camvid"}
        left_out = [name for name, folder in folders.items() if not (root / folder).is_dir()]
        names = [name for name in SETS if name not in left_out]
        result |= {"quality": quality(root, names), "left_out": left_out}
    report.save("guided", result | {"times": times()})
    print(write())


if __name__ == "__main__":
    main()
