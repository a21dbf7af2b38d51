"""CUDA extensions that people compile today, if they are installed: the paper's own, and CARAFE of mmcv."""

from importlib import import_module
from typing import Any

import torch
from torch import Tensor

RIVALS = ("official extension", "mmcv carafe")


def official(q: Tensor, k: Tensor, v: Tensor, kernel_size: int) -> Tensor:
    """attend by the extension of the paper, whose maps are [B, H, W, C]: scores, softmax and sum in three steps."""
    S = q.shape[-1] // k.shape[-1]
    points = [x.permute(0, 2, 3, 1).contiguous() for x in (q, k, v)]
    scores: Any = _Extension.apply(
        "sim_ext", points[0], points[1], (*points[0].shape[:3], kernel_size**2), kernel_size, S
    )
    y: Any = _Extension.apply("atn_ext", scores.softmax(-1), points[2], (*scores.shape[:3], v.shape[1]), kernel_size, S)
    return y.permute(0, 3, 1, 2)


def carafe(v: Tensor, w: Tensor, kernel_size: int) -> Tensor:
    """The sum over the window alone, with weights from elsewhere: less work than attend."""
    return import_module("mmcv.ops").carafe(v, w, kernel_size, 1, w.shape[-1] // v.shape[-1])


class _Extension(torch.autograd.Function):
    """A module of the extension: `forward` and `backward`, each writing into what it is given last."""

    @staticmethod
    def forward(
        ctx: Any, module: str, high: Tensor, low: Tensor, shape: tuple[int, ...], kernel_size: int, scale: int
    ) -> Tensor:
        ctx.save_for_backward(high, low)
        ctx.options = module, kernel_size, scale
        y = high.new_zeros(shape)
        import_module(module).forward(high, low, kernel_size, scale, y)
        return y

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Any, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        (high, low), (module, kernel_size, scale) = ctx.saved_tensors, ctx.options
        grads = torch.zeros_like(high), torch.zeros_like(low)
        import_module(module).backward(g.contiguous(), high, low, kernel_size, scale, *grads)
        return None, *grads, None, None, None
