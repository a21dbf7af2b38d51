"""Norm and project at every point: the definition in plain PyTorch, with a written backward.

With z = (x - mean) / deviation over the channels, or z = x without a norm, project is W (gamma z + beta) + b.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from sapa.geometry import keep_format


def project(
    x: Tensor, weight: Tensor, bias: Tensor | None, gamma: Tensor | None, beta: Tensor | None, eps: float | None
) -> Tensor:
    """[B, C, H, W] to [B, D, H, W] by a weight of [D, C], after LayerNorm over the channels unless `eps` is None."""
    points = x.permute(0, 2, 3, 1)  # [B, H, W, C]
    if eps is not None:
        points = F.layer_norm(points, points.shape[-1:], _like(gamma, x), _like(beta, x), eps)
    y = F.linear(points, weight.to(x.dtype), _like(bias, x))
    return keep_format(y.permute(0, 3, 1, 2), x)


def project_backward(
    g: Tensor,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    gamma: Tensor | None,
    beta: Tensor | None,
    eps: float | None,
) -> list[Tensor]:
    """The gradients of x, weight and those of bias, gamma and beta that are there."""
    wide = torch.promote_types(x.dtype, torch.float32)
    z, g = (t.permute(0, 2, 3, 1).to(wide) for t in (x, g))  # [B, H, W, C] [B, H, W, D]
    deviation = torch.ones((), dtype=wide, device=x.device)
    if eps is not None:
        variance, mean = torch.var_mean(z, -1, correction=0, keepdim=True)
        deviation = (variance + eps).sqrt()
        z = (z - mean) / deviation
    dx = g @ weight.to(wide)  # [B, H, W, C]
    if gamma is not None:
        dx = dx * gamma
    if eps is not None:
        dx = (dx - dx.mean(-1, keepdim=True) - z * (dx * z).mean(-1, keepdim=True)) / deviation
    flat = g.flatten(0, 2)
    moments, totals = flat.T @ z.flatten(0, 2), flat.sum(0)  # [D, C] [D]
    return [
        keep_format(dx.permute(0, 3, 1, 2).to(x.dtype), x),
        *gradients_of_parameters(moments, totals, weight, bias, gamma, beta),
    ]


def gradients_of_parameters(
    moments: Tensor, totals: Tensor, weight: Tensor, bias: Tensor | None, gamma: Tensor | None, beta: Tensor | None
) -> list[Tensor]:
    """From the sums over all points of dy z^T [D, C] and of dy [D]."""
    W = weight.to(moments.dtype)
    dweight = moments if gamma is None else moments * gamma
    if beta is not None:
        dweight = dweight + totals[:, None] * beta
    grads = [dweight.to(weight.dtype)]
    if bias is not None:
        grads.append(totals.to(bias.dtype))
    if gamma is not None:
        grads.append((W * moments).sum(0).to(gamma.dtype))
    if beta is not None:
        grads.append((totals @ W).to(beta.dtype))
    return grads


def _like(parameter: Tensor | None, x: Tensor) -> Tensor | None:
    return None if parameter is None else parameter.to(x.dtype)
