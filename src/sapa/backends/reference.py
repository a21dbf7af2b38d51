"""The definition: every operator in plain PyTorch, on any device, with a written backward.

Three linear maps carry everything. On a window of K*K taps around the centre of each high-res point,

    dot      s[p, t] = <a[p], b[c(p) + t]>            two maps to scores
    weigh    y[p]    = sum_t w[p, t] * b[c(p) + t]    a low-res map and weights to a high-res map
    scatter  b[i]    = sum_{p, t: c(p) + t = i} w[p, t] * a[p]

and each is the gradient of the others, so the backward passes are made of the same three. A map is enlarged one
tap at a time and never unfolded: extra memory is a few maps and the scores, whatever K and C.
"""

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from sapa.backends.projection import project, project_backward
from sapa.geometry import Size, collect, inside, keep_format, nearest, size_of

EPSILON = 1e-6
ACTIVATIONS = {"relu": F.relu, "sigmoid": torch.sigmoid, "softplus": F.softplus}
SLOPES = {
    "relu": lambda s, f: (s > 0).to(s.dtype),
    "sigmoid": lambda s, f: f * (1 - f),
    "softplus": lambda s, f: torch.sigmoid(s),
}

Bias = tuple[Tensor, Tensor] | None

__all__ = [
    "assemble",
    "assemble_backward",
    "attend",
    "attend_backward",
    "kernels",
    "kernels_backward",
    "project",
    "project_backward",
    "why_not",
]


def why_not(device: torch.device | None = None) -> str | None:
    """Say why this backend cannot run: it always can."""
    return None


# ---- the operators


def kernels(q: Tensor, k: Tensor, bias: Bias, kernel_size: Size, normalize: str, border: str) -> Tensor:
    s = scores(wide(q), wide(k), bias, kernel_size, border)
    return keep_format(weights(s, normalize).to(q.dtype), q)  # [B, P, H, W]


def kernels_backward(
    g: Tensor, q: Tensor, k: Tensor, bias: Bias, kernel_size: Size, normalize: str, border: str
) -> list[Tensor]:
    s = scores(wide(q), wide(k), bias, kernel_size, border)
    return scores_backward(weights_backward(wide(g), s, normalize), q, k, bias, kernel_size)


def assemble(v: Tensor, w: Tensor, kernel_size: Size, groups: int) -> Tensor:
    return keep_format(weigh(wide(v), wide(w), kernel_size, groups).to(v.dtype), v)  # [B, C, H, W]


def assemble_backward(g: Tensor, v: Tensor, w: Tensor, kernel_size: Size, groups: int) -> list[Tensor]:
    g = wide(g)
    dv = scatter(g, wide(w), size_of(v), kernel_size, groups)
    dw = dot(g, wide(v), kernel_size, groups)
    return [keep_format(dv.to(v.dtype), v), keep_format(dw.to(w.dtype), w)]


def attend(q: Tensor, k: Tensor, v: Tensor, bias: Bias, kernel_size: Size, normalize: str, border: str) -> Tensor:
    w = weights(scores(wide(q), wide(k), bias, kernel_size, border), normalize)
    return assemble(v, w, kernel_size, groups=1)  # [B, C, H, W]


def attend_backward(
    g: Tensor, q: Tensor, k: Tensor, v: Tensor, bias: Bias, kernel_size: Size, normalize: str, border: str
) -> list[Tensor]:
    s = scores(wide(q), wide(k), bias, kernel_size, border)
    dv, dw = assemble_backward(g, v, weights(s, normalize), kernel_size, groups=1)
    dq, dk, *dbias = scores_backward(weights_backward(dw, s, normalize), q, k, bias, kernel_size)
    return [dq, dk, dv, *dbias]


# ---- scores and their normalisation


def scores(q: Tensor, k: Tensor, bias: Bias, kernel_size: Size, border: str) -> Tensor:
    """s[p, t] = <q[p], k[c(p) + t]> + b[p, t]; a score of -inf leaves the tap out."""
    s = dot(q, k, kernel_size)  # [B, P, H, W]
    if bias is not None:
        rows, columns = (table.to(s.dtype).T for table in bias)  # [Kh, H] [Kw, W]
        s = s + (rows[:, None, :, None] + columns[None, :, None, :]).flatten(0, 1)
    if border == "mask":
        s = s.masked_fill(~inside(size_of(s), size_of(k), kernel_size, s.device), -torch.inf)
    return s


def scores_backward(ds: Tensor, q: Tensor, k: Tensor, bias: Bias, kernel_size: Size) -> list[Tensor]:
    dq = weigh(wide(k), ds, kernel_size)
    dk = scatter(wide(q), ds, size_of(k), kernel_size)
    return [keep_format(dq.to(q.dtype), q), keep_format(dk.to(k.dtype), k), *bias_backward(ds, bias, kernel_size)]


def bias_backward(ds: Tensor, bias: Bias, kernel_size: Size) -> list[Tensor]:
    if bias is None:
        return []
    ds = ds.unflatten(1, kernel_size)  # [B, Kh, Kw, H, W]
    drows, dcolumns = ds.sum((0, 2, 4)).T, ds.sum((0, 1, 3)).T  # [H, Kh] [W, Kw]
    return [d.to(table.dtype).contiguous() for d, table in zip((drows, dcolumns), bias, strict=True)]


def weights(s: Tensor, normalize: str) -> Tensor:
    """f(s) / sum f(s) over the window; a point all of whose taps are left out gets zeros."""
    if normalize == "softmax":
        peak = s.detach().amax(1, keepdim=True).clamp(min=torch.finfo(s.dtype).min)
        f = torch.exp(s - peak)
        total = f.sum(1, keepdim=True)
        return f / total.masked_fill(total == 0, 1)
    if normalize == "none":
        return s.masked_fill(s == -torch.inf, 0)
    f = ACTIVATIONS[normalize](s)
    return f / (f.sum(1, keepdim=True) + EPSILON)


def weights_backward(dw: Tensor, s: Tensor, normalize: str) -> Tensor:
    if normalize == "none":
        return dw.masked_fill(s == -torch.inf, 0)
    w = weights(s, normalize)
    centred = dw - (w * dw).sum(1, keepdim=True)
    if normalize == "softmax":
        return w * centred
    f = ACTIVATIONS[normalize](s)
    return SLOPES[normalize](s, f) * centred / (f.sum(1, keepdim=True) + EPSILON)


# ---- the three linear maps


def dot(a: Tensor, b: Tensor, kernel_size: Size, groups: int = 1) -> Tensor:
    """[B, C, H, W] and [B, C, h, w] to [B, G*P, H, W]."""
    size = size_of(a)
    products = [(a * nearest(b_t, size)).unflatten(1, (groups, -1)).sum(2) for b_t in taps(b, kernel_size)]
    return torch.stack(products, 2).flatten(1, 2)


def weigh(b: Tensor, w: Tensor, kernel_size: Size, groups: int = 1) -> Tensor:
    """[B, C, h, w] and [B, G*P, H, W] to [B, C, H, W]."""
    size, C = size_of(w), b.shape[1]
    y = torch.zeros_like(nearest(b, size))
    for b_t, w_t in zip(taps(b, kernel_size), per_channel(w, groups, C), strict=True):
        y = torch.addcmul(y, w_t, nearest(b_t, size))
    return y


def scatter(a: Tensor, w: Tensor, low: Size, kernel_size: Size, groups: int = 1) -> Tensor:
    """[B, C, H, W] and [B, G*P, H, W] to [B, C, h, w]."""
    (Kh, Kw), (B, C) = kernel_size, a.shape[:2]
    padded = a.new_zeros(B, C, low[0] + Kh - 1, low[1] + Kw - 1)
    for b_t, w_t in zip(views(padded, low, kernel_size), per_channel(w, groups, C), strict=True):
        b_t += collect(w_t * a, low)
    return F.pad(padded, (-(Kw // 2), -(Kw // 2), -(Kh // 2), -(Kh // 2)))


def taps(b: Tensor, kernel_size: Size) -> Iterator[Tensor]:
    """The low-res map as each tap of the window sees it, row by row: b[i + t], zero outside."""
    Kh, Kw = kernel_size
    return views(F.pad(b, (Kw // 2, Kw // 2, Kh // 2, Kh // 2)), size_of(b), kernel_size)


def views(padded: Tensor, low: Size, kernel_size: Size) -> Iterator[Tensor]:
    (h, w), (Kh, Kw) = low, kernel_size
    return (padded[..., i : i + h, j : j + w] for i in range(Kh) for j in range(Kw))


def per_channel(w: Tensor, groups: int, channels: int) -> Iterator[Tensor]:
    """The weights of each tap, spread from groups to channels: P times [B, C, H, W]."""
    for w_t in w.unflatten(1, (groups, -1)).unbind(2):  # [B, G, H, W]
        yield w_t.unsqueeze(2).expand(-1, -1, channels // groups, -1, -1).flatten(1, 2)


def wide(x: Tensor) -> Tensor:
    """At least float32: half types only enter and leave."""
    return x.to(torch.promote_types(x.dtype, torch.float32))
