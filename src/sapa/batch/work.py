"""One pair, from file to file."""

import logging
from dataclasses import replace

import numpy as np
import torch

from sapa.batch.options import Options
from sapa.batch.pairs import Pair
from sapa.files import FileError, Map, cast, dtype_for, read_guide, read_map, write_map
from sapa.files.map import hint
from sapa.guided import guided_upsample

# what it would log about a broken file, it also raises
logging.getLogger("tifffile").setLevel(logging.CRITICAL)

# a photograph or a map of numbers has more, and would take all memory
MOST_CLASSES = 4096


def attempt(pair: Pair, options: Options) -> str | None:
    """Upsample one pair, and return None, or one line that says what was wrong."""
    try:
        upsample_pair(pair, options)
    except FileError as error:
        return str(error)
    except Exception as error:
        # whatever a pair does, the others go on
        return f"{pair.low}: {hint(error)}."
    return None


def upsample_pair(pair: Pair, options: Options) -> None:
    low, guide = read_map(pair.low), read_guide(pair.guide)
    if options.labels:
        low = replace(low, labels=True)
    # before the work, as it may be in vain
    dtype = dtype_for(pair.output, low)
    check_sizes(pair, low, guide)
    if guide.dtype.kind == "f" and not np.isfinite(guide).all():
        raise FileError(f"{pair.guide}: a guide must be finite everywhere, and this one has NaN or infinity.")
    invalid = invalid_in(low, options)
    if low.values.dtype.kind == "f" and np.isinf(low.values).any() and not (low.labels or np.isinf(invalid or 0)):
        raise FileError(f"{pair.low}: has infinite values, which have no mean: leave them out with --invalid inf.")
    values = upsample_labels(low, guide, options) if low.labels else upsample_values(low, guide, options)
    write_map(pair.output, low.holding(cast(values, dtype)))


def check_sizes(pair: Pair, low: Map, guide: np.ndarray) -> None:
    (h, w), (H, W) = low.values.shape[:2], guide.shape[:2]
    sizes = f"{pair.low}: the map is {h}x{w} and its guide {pair.guide} {H}x{W} (height x width)"
    if min(H - h, W - w) < 0:
        raise FileError(f"{sizes}: the guide must not be smaller; are the two the wrong way round?")
    if not _have_one_shape(h, w, H, W):
        advice = "they cannot show the same"
        if _have_one_shape(h, w, W, H):
            advice = "one of the two is turned (EXIF orientations are applied)"
        elif low.layout in ("hwc", "chw") and not low.channels:
            advice += f", unless the array, read as [{', '.join(low.layout)}], is laid out otherwise"
        raise FileError(f"{sizes}: {advice}.")


def _have_one_shape(h: int, w: int, H: int, W: int) -> bool:
    """Whether one size shrinks to the other up to a low-res point, as rounding may take."""
    return abs(h - w * H / W) <= 1 or abs(w - h * W / H) <= 1


def upsample_values(low: Map, guide: np.ndarray, options: Options) -> np.ndarray:
    """Averages of the map [H, W, c], in float32, or float64 where the map needs it."""
    kind = low.values.dtype
    wide = np.float64 if kind.itemsize > (4 if kind.kind == "f" else 2) else np.float32
    x = torch.from_numpy(np.require(low.values, wide, ("C", "W"))).permute(2, 0, 1)[None]  # [1, c, h, w]
    y = _upsample(x, guide, options, labels=False, invalid=invalid_in(low, options))
    return y[0].permute(1, 2, 0).numpy()


def upsample_labels(low: Map, guide: np.ndarray, options: Options) -> np.ndarray:
    """A vote among the values of the map, each of which is a class, be it a number or a colour. [H, W, c]"""
    h, w, c = low.values.shape
    if c == 1:
        values, classes = np.unique(low.values, return_inverse=True)
        values = values[:, None]
    else:
        values, classes = np.unique(low.values.reshape(-1, c), axis=0, return_inverse=True)
    invalid = invalid_in(low, options)
    if invalid is not None:
        is_invalid = np.isnan(values) if np.isnan(invalid) else values == invalid
        (places,) = is_invalid.all(1).nonzero()
        invalid = float(places[0]) if len(places) else None
        classes = np.where(np.isin(classes, places), places[:1].sum(), classes)  # no NaN equals another
    if len(values) > MOST_CLASSES:
        raise ValueError(f"has {len(values)} different values, too many for labels (at most {MOST_CLASSES})")
    x = torch.from_numpy(classes.reshape(1, 1, h, w).astype(np.int32))
    y = _upsample(x, guide, options, labels=True, invalid=invalid)
    return values[y[0, 0].numpy()]


def invalid_in(low: Map, options: Options) -> float | None:
    """The value of the points to leave out, if there are any in the map."""
    if options.invalid is not None and (low.values == options.invalid).any():
        return options.invalid
    return float("nan") if low.values.dtype.kind == "f" and np.isnan(low.values).any() else None


@torch.inference_mode()
def _upsample(
    x: torch.Tensor, guide: np.ndarray, options: Options, *, labels: bool, invalid: float | None
) -> torch.Tensor:
    kind = guide.dtype if guide.dtype in (np.uint8, np.float64) else np.dtype(np.float32)
    g = torch.from_numpy(np.require(guide, kind, ("C", "W"))).permute(2, 0, 1)[None]  # [1, Cg, H, W]
    limit = {} if options.memory is None else {"memory": options.memory}
    return guided_upsample(
        x.to(options.device),
        g.to(options.device),
        options.size,
        kernel_size=options.kernel_size,
        sigma=options.sigma,
        iterations=options.iterations,
        labels=labels,
        invalid=invalid,
        **limit,
    ).cpu()
