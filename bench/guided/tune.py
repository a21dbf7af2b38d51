"""Find good parameters for the two filters of OpenCV: `python -m bench.guided.tune --data DIR`."""

import argparse
from functools import partial
from itertools import islice, product
from pathlib import Path
from statistics import mean

from bench.guided.methods import METHODS, Method, guided_filter, joint_bilateral_filter, upsampled
from bench.guided.metrics import errors
from bench.guided.sets import SETS, Example

SCALE, EXAMPLES = 8, 4


def relative_error(method: Method, sets: dict[str, list[Example]]) -> float:
    """Of bilinear's, over all metrics and sets."""
    return mean(
        mean(mine / max(theirs, 1e-9) for mine, theirs in zip(*(found.values() for found in pair), strict=True))
        for name, examples in sets.items()
        for example in examples
        for pair in [[_errors(name, tried, example) for tried in (method, METHODS["bilinear"])]]
    )


def _errors(name: str, method: Method, example: Example) -> dict[str, float]:
    return errors(name, upsampled(method, example.shrunk(SCALE), example.photo, SCALE), example)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder with nyu, matting and camvid")
    root = parser.parse_args().data
    sets = {name: list(islice(read(root), EXAMPLES)) for name, read in SETS.items()}
    for colour, space in product((0.025, 0.05, 0.1, 0.2), (0.25, 0.5, 1.0)):
        method = partial(joint_bilateral_filter, sigma_colour=colour, sigma_space=space)
        print(f"joint bilateral filter, {colour=} {space=}: {relative_error(method, sets):.3f}")
    for radius, eps in product((0.25, 0.5, 1.0, 2.0), (1e-5, 1e-4, 1e-3, 1e-2)):
        method = partial(guided_filter, radius=radius, eps=eps)
        print(f"guided filter, {radius=} {eps=}: {relative_error(method, sets):.3f}")


if __name__ == "__main__":
    main()
