"""What each low-res point around a high-res one adds to it, for any upsampler."""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sapa.geometry import Size, centres, inside, size_of, taps
from sapa.nn import (
    Bicubic,
    Bilinear,
    BilinearAdditive,
    Deconv,
    DUpsample,
    DySample,
    IndexNet,
    JointBilateral,
    MaxUnpool,
    Nearest,
    PixelShuffle,
    Upsampler,
)

# their output is linear in x, whatever the guide is, up to a bias
LINEAR = (Nearest, Bilinear, Bicubic, JointBilateral, MaxUnpool, PixelShuffle, Deconv)
LINEAR += (BilinearAdditive, DUpsample, IndexNet)
WINDOW = 7  # wider than any of those reaches
FAR = 9  # of low-res points moved together where the reach is not known
STEP = 1e-6  # of such a move, relative to the deviation of x


@dataclass(frozen=True)
class Weights:
    values: Tensor  # [P, H, W]
    kernel_size: Size
    kind: str  # "kernels" as the upsampler has them, "linear", "sampled" or "derivative"


def weights(up: nn.Module, x: Tensor, guide: Tensor) -> Weights:
    """Weights w[t, p] of the points in the window around each centre, where y[p] = sum over t of w[t, p] x[c(p) + t].

    Those an upsampler computes itself are taken as they are, as a mean over its groups. Where the output is linear in
    x they are read off, by moving low-res points too far apart to meet, all channels by 1: the response of the mean
    of the channels. Where it samples x at places that depend on x, the same with these places held. Elsewhere it is
    the derivative of that mean, which sees both the value of a low-res point and what it does to the weights.
    """
    size, low = size_of(guide), size_of(x)
    if hasattr(up, "kernels"):
        return _own(up, x, guide)
    if isinstance(up, LINEAR):
        still = call(up, torch.zeros_like(x), guide)
        window = up.kernel_size if isinstance(up, JointBilateral) else (WINDOW, WINDOW)
        moved = _responses(lambda comb: call(up, comb.expand_as(x), guide) - still, size, low, window, x)
        return _trimmed(_windows(moved, size, low, window, window), window, "linear")
    window, apart = (WINDOW, WINDOW), (FAR, FAR)
    if isinstance(up, DySample):
        moved = _responses(_sampler(up, x), size, low, apart, x)
        return _trimmed(_windows(moved, size, low, window, apart), window, "sampled")
    # in double precision, where so small a step leaves ten digits
    wide, (x, guide) = copy.deepcopy(up).double(), (x.double(), guide.double())
    step, still = STEP * x.std(correction=0).clamp_min(1e-3), call(wide, x, guide)
    moved = _responses(lambda comb: (call(wide, x + step * comb, guide) - still) / step, size, low, apart, x)
    return _trimmed(_windows(moved, size, low, window, apart).float(), window, "derivative", least=2e-3)


def call(up: nn.Module, x: Tensor, guide: Tensor) -> Tensor:
    """The output, of an upsampler or of any module that takes the low-res map alone."""
    return up(x, guide) if isinstance(up, Upsampler) else up(x)


def _own(up: nn.Module, x: Tensor, guide: Tensor) -> Weights:
    window = getattr(up, "kernel_size", None) or getattr(up, "up_kernel", 1)
    Kh, Kw = window if isinstance(window, tuple) else (window, window)
    w = up.kernels(x, guide)[0].unflatten(0, (-1, Kh * Kw)).mean(0)  # type: ignore[operator]
    H, W = size_of(guide)
    return Weights(w[..., :H, :W].float(), (Kh, Kw), "kernels")


def _sampler(up: DySample, x: Tensor) -> Callable[[Tensor], Tensor]:
    """What the upsampler makes of another map at the places it has chosen in x, for each group: [1, G, H, W]."""
    places = up._places(up._offset(x), size_of(x)).flatten(0, 1)  # [G, H, W, 2]

    def sample(comb: Tensor) -> Tensor:
        combs = comb.expand(len(places), -1, -1, -1)
        y = F.grid_sample(combs, places, mode="bilinear", padding_mode="border", align_corners=False)
        return y.transpose(0, 1)

    return sample


def _responses(move: Callable[[Tensor], Tensor], size: Size, low: Size, apart: Size, x: Tensor) -> Tensor:
    """How the mean of the channels answers to every comb of low-res points that lie so far apart: [Rh*Rw, H, W]."""
    answers = []
    for i, j in product(*map(range, apart)):
        comb = x.new_zeros(1, 1, *low)
        comb[..., i :: apart[0], j :: apart[1]] = 1
        answers.append(move(comb)[0].mean(0)[: size[0], : size[1]])
    return torch.stack(answers)


def _windows(answers: Tensor, size: Size, low: Size, window: Size, apart: Size) -> Tensor:
    """Find, for tap t of point p, the answer to the comb on which low-res point c(p) + t lies: [P, H, W]."""
    rows, columns = (
        taps(centres(N, n, answers.device), K).T % R  # [K, N]
        for N, n, K, R in zip(size, low, window, apart, strict=True)
    )
    comb = rows[:, None, :, None] * apart[1] + columns[None, :, None, :]  # [Kh, Kw, H, W]
    return answers.gather(0, comb.flatten(0, 1)) * inside(size, low, window, answers.device)


def _trimmed(w: Tensor, window: Size, kind: str, least: float = 1e-6) -> Weights:
    """Without the outer rings of the window that no point uses, beyond so small a part of the largest weight."""
    w = w.unflatten(0, window)  # [Kh, Kw, H, W]
    used = w.abs().amax((2, 3)) > least * w.abs().max()
    Kh, Kw = window
    offsets = used.nonzero() - torch.tensor([Kh // 2, Kw // 2])
    reach = offsets.abs().amax().item() if len(offsets) else 0
    rows, columns = (slice(max(0, K // 2 - int(reach)), K // 2 + int(reach) + 1) for K in window)
    w = w[rows, columns]
    return Weights(w.flatten(0, 1).contiguous(), (w.shape[0], w.shape[1]), kind)
