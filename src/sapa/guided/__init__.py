"""guided_upsample: a low-res map of anything, lifted to the size of the photograph it belongs to. No training."""

import math
from contextlib import nullcontext
from numbers import Real

import torch
import torch.nn.functional as F
from torch import Tensor

from sapa import checks
from sapa.geometry import Size, memory_format, size_of
from sapa.guided.picture import Picture
from sapa.ops import is_autocast

MEMORY = 1 << 28  # bytes
WHOLE = (torch.uint8, torch.int8, torch.uint16, torch.int16, torch.uint32, torch.int32, torch.int64, torch.bool)


def guided_upsample(
    x: Tensor,
    guide: Tensor,
    size: int | Size | None = None,
    *,
    kernel_size: int | None = None,
    sigma: float | None = None,
    iterations: int = 1,
    labels: bool = False,
    invalid: float | None = None,
    memory: int = MEMORY,
) -> Tensor:
    """Lift `x` to the size of its photograph: sharp where the photograph shows an edge of x, smooth elsewhere.

    Each high-res point is a mean of the low-res points around, weighted by likeness of colour and by nearness, in one
    `attend`. How much likeness counts, and where, is measured on x itself; docs/guided.md tells how.

    Args:
        x: low-res map [B, C, h, w] of anything: depth, masks, class scores, flow, features. NaN is left out.
        guide: the photograph [B, 3, H, W], uint8 or floating; or another map of any number of channels.
        size: (H, W) of the result, or one number for both, if it is not the size of the guide, which is then resized.
        kernel_size: odd K, in low-res points. None takes 5 up to a ratio of 4, and 3 above.
        sigma: difference of colours that counts as alike, in the units of the guide. None tries several.
        iterations: how often the result is brought back in line with x, by what the means of its cells lack: right for
            a map that was averaged, or comes from a network. With 0 it stays within the range of x.
        labels: x holds classes [B, 1, h, w] in an integer dtype. No other classes come out; `iterations` is ignored.
        invalid: a value of x that means "unknown", such as 0, besides NaN. It is left out of every mean, and points
            with nothing valid in their window get it back.
        memory: bytes for maps of the high-res size besides the result, which is made in strips to fit. They do not
            show: the result is the same to the last bit.

    Returns:
        [B, C, H, W] in the dtype of `x`.

    >>> sapa.guided_upsample(depth, photo)  # [1, 1, 60, 80], [1, 3, 480, 640] -> [1, 1, 480, 640]
    """
    _check(x, guide, kernel_size, sigma, iterations, labels, invalid, memory)
    if size is not None:
        guide = _resized(guide, checks.whole_pair("guided_upsample", "size", size))
    checks.bind("guided_upsample", x=(_floating(x), "B C h w"), guide=(_floating(guide), "B Cg H W"))
    if len(x) == 0:
        return x.new_empty(*x.shape[:2], *size_of(guide))
    device = x.device.type
    with torch.autocast(device, enabled=False) if is_autocast(device) else nullcontext():
        if labels:
            return _labels(x, guide, kernel_size, sigma, invalid, memory)
        return _values(x, guide, kernel_size, sigma, iterations, invalid, memory)


def _values(
    x: Tensor, guide: Tensor, K: int | None, sigma: float | None, iterations: int, invalid: float | None, memory: int
) -> Tensor:
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    is_unknown = x.isnan() if invalid is None else x.isnan() | (x == invalid)  # in the precision of x
    if (wide.isinf() & ~is_unknown).any():
        raise ValueError(
            "guided_upsample: x has infinite values, which have no mean; replace them by NaN to leave them out."
        )
    is_valid = ~is_unknown.any(1, keepdim=True) if is_unknown.any() else None
    picture = Picture(wide, guide, is_valid, K, sigma, memory)
    y = torch.empty(*x.shape[:2], *size_of(guide), dtype=wide.dtype, device=x.device, memory_format=memory_format(x))
    for strip in picture.strips:
        y[..., picture.grid.rows(strip), :] = picture.upsample(strip)
    for _ in range(iterations):
        y = picture.in_line(y)
    for strip in picture.strips:
        is_empty = picture.is_empty(strip)
        if is_empty is not None:
            y[..., picture.grid.rows(strip), :].masked_fill_(is_empty, math.nan if invalid is None else invalid)
    if x.dtype == y.dtype:
        return y
    limits = torch.finfo(x.dtype)  # a correction may go a little beyond x
    return y.clamp(limits.min, limits.max).to(x.dtype)


def _labels(x: Tensor, guide: Tensor, K: int | None, sigma: float | None, invalid: float | None, memory: int) -> Tensor:
    known = x.long()  # some integers can be stored and hardly computed with
    is_valid = None if invalid is None else known != invalid
    classes = (known if is_valid is None else known[is_valid]).unique()
    y = x.new_empty(*x.shape[:2], *size_of(guide))
    if len(classes) == 0:
        return y.copy_(known[:, :, :1, :1])
    shares = (known == classes[:, None, None]).to(torch.float32)
    picture = Picture(shares, guide, is_valid, K, sigma, memory)
    for strip in picture.strips:
        found, is_empty = classes[picture.upsample(strip).argmax(1, keepdim=True)], picture.is_empty(strip)
        if is_empty is not None:
            found.masked_fill_(is_empty, int(invalid or 0))
        y[..., picture.grid.rows(strip), :] = found.to(x.dtype)
    return y


def _check(
    x: Tensor,
    guide: Tensor,
    kernel_size: int | None,
    sigma: float | None,
    iterations: int,
    labels: bool,
    invalid: float | None,
    memory: int,
) -> None:
    name = "guided_upsample"
    for argument, tensor in (("x", x), ("guide", guide)):
        if not isinstance(tensor, Tensor):
            raise TypeError(f"{name}: {argument} must be a tensor, got {type(tensor).__name__}.")
    if labels and x.dtype not in WHOLE:
        raise ValueError(
            f"{name}: with labels=True, x must hold classes as one of {checks.names(WHOLE)}; "
            f"got {checks.plain(x.dtype)}."
        )
    if labels and (x.ndim != 4 or x.shape[1] != 1):
        raise ValueError(f"{name}: with labels=True, x must be [B, 1, h, w], got {list(x.shape)}.")
    if not labels and x.dtype not in checks.DTYPES:
        raise ValueError(
            f"{name}: x is {checks.plain(x.dtype)}; convert it to one of {checks.names(checks.DTYPES)}, or pass "
            f"labels=True if it holds classes."
        )
    if guide.dtype != torch.uint8 and guide.dtype not in checks.DTYPES:
        raise ValueError(f"{name}: guide is {checks.plain(guide.dtype)}; convert it to uint8 or float32.")
    if kernel_size is not None and not (checks.is_whole(kernel_size) and kernel_size > 0 and kernel_size % 2 == 1):
        raise ValueError(f"{name}: kernel_size must be odd and positive, such as 5, got {kernel_size!r}.")
    for argument, value in (("sigma", sigma), ("invalid", invalid)):
        if value is not None and not isinstance(value, Real):
            raise TypeError(f"{name}: {argument} must be a number or None, got {value!r}.")
    if sigma is not None and not sigma > 0:
        raise ValueError(f"{name}: sigma must be positive, got {sigma!r}.")
    if not checks.is_whole(iterations) or iterations < 0:
        raise ValueError(f"{name}: iterations must be 0 or a positive integer, got {iterations!r}.")
    checks.positive(name, memory=memory)


def _floating(x: Tensor) -> Tensor:
    """A tensor of this shape that may be checked as a map, whatever the dtype, and takes no memory."""
    return x if x.dtype in checks.DTYPES else torch.empty((), device=x.device).expand(x.shape)


def _resized(guide: Tensor, size: Size) -> Tensor:
    if guide.ndim != 4 or size_of(guide) == size:
        return guide
    wide = guide.to(torch.promote_types(guide.dtype, torch.float32))
    return F.interpolate(wide, size, mode="bilinear", antialias=True).to(guide.dtype)
