"""Independent truths: the definition in Python loops, and the unfold form that users write today."""

from fractions import Fraction
from math import exp, floor, inf, log1p

import torch
import torch.nn.functional as F
from torch import Tensor

FUNCTIONS = {
    "relu": lambda s: max(s, 0.0),
    "sigmoid": lambda s: 1 / (1 + exp(-s)) if s > -inf else 0.0,
    "softplus": lambda s: max(s, 0.0) + log1p(exp(-abs(s))),
}


def centre(p: int, low: int, high: int) -> int:
    return floor((p + Fraction(1, 2)) * low / high)


def normalized(scores: list[float], normalize: str) -> list[float]:
    if normalize == "none":
        return [0.0 if s == -inf else s for s in scores]
    if normalize == "softmax":
        peak = max(scores)
        f = [exp(s - peak) for s in scores]
        return [a / sum(f) for a in f]
    f = [FUNCTIONS[normalize](s) for s in scores]
    return [a / (sum(f) + 1e-6) for a in f]


def loops(q, k, v, kernel_size, normalize="softmax", border="zero", bias=None) -> tuple[Tensor, Tensor]:
    """Weights and output of `attend`, one number at a time in float64."""
    (Kh, Kw), (B, _, H, W), (_, C, h, w) = kernel_size, q.shape, v.shape
    weights = torch.zeros(B, Kh * Kw, H, W, dtype=torch.float64)
    output = torch.zeros(B, C, H, W, dtype=torch.float64)
    for b in range(B):
        for y in range(H):
            for x in range(W):
                scores, values = [], []
                for i in range(Kh):
                    for j in range(Kw):
                        row, column = centre(y, h, H) + i - Kh // 2, centre(x, w, W) + j - Kw // 2
                        is_inside = 0 <= row < h and 0 <= column < w
                        score = float(q[b, :, y, x].double() @ k[b, :, row, column].double()) if is_inside else 0.0
                        if bias is not None:
                            score += float(bias[0][y, i]) + float(bias[1][x, j])
                        scores.append(score if is_inside or border == "zero" else -inf)
                        values.append(v[b, :, row, column].double() if is_inside else torch.zeros(C).double())
                weights[b, :, y, x] = torch.tensor(normalized(scores, normalize), dtype=torch.float64)
                output[b, :, y, x] = sum(a * value for a, value in zip(weights[b, :, y, x], values, strict=True))
    return weights, output


def unfolded(q: Tensor, k: Tensor, v: Tensor, K: int) -> Tensor:
    """The softmax form at a whole scale, as written with F.unfold, in the dtype of its arguments."""
    (B, D, H, W), (h, w), C = q.shape, k.shape[-2:], v.shape[1]
    keys = F.unfold(k, K, padding=K // 2).view(B, D, K * K, h, 1, w, 1)
    values = F.unfold(v, K, padding=K // 2).view(B, C, K * K, h, 1, w, 1)
    scores = (q.reshape(B, D, 1, h, H // h, w, W // w) * keys).sum(1)
    return (scores.softmax(1).unsqueeze(1) * values).sum(2).reshape(B, C, H, W)


def assert_as_good(actual: Tensor, plain: Tensor, truth: Tensor, factor: float = 2) -> None:
    """The error of `actual` against the float64 truth is at most `factor` times that of plain PyTorch."""
    error, allowed = (actual.double() - truth).abs().max(), (plain.double() - truth).abs().max()
    assert error <= factor * allowed, f"error {error:.3g}, plain PyTorch in the same dtype {allowed:.3g}"
