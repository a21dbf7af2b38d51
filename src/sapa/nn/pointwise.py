"""Layers that treat every point of a map alike, under the parameter names, shapes and first values of the releases."""

import torch
from torch import Tensor, nn
from torch.nn.modules.module import _has_any_global_hook

from sapa.functional import project

GROUPS = 32
STD = 0.02  # of the first weights of a projection


class PointNorm(nn.LayerNorm):
    """LayerNorm over the channels of each point: [B, C, H, W]."""

    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class PointLinear(nn.Linear):
    """A linear map of the channels of each point; weight [D, C], as in the first release."""

    def __init__(self, inputs: int, outputs: int, bias: bool = True, std: float = STD) -> None:
        self.std = std
        super().__init__(inputs, outputs, bias)

    def forward(self, input: Tensor) -> Tensor:
        return project(input, self.weight, self.bias)

    def reset_parameters(self) -> None:
        start_small(self, self.std)


class PointConv(nn.Conv2d):
    """The same with a weight of [D, C, 1, 1], as in the extension."""

    def __init__(self, inputs: int, outputs: int, bias: bool = True, std: float = STD) -> None:
        self.std = std
        super().__init__(inputs, outputs, 1, bias=bias)

    def forward(self, input: Tensor) -> Tensor:
        if torch.compiler.is_compiling():
            # inductor cannot lay out a 1x1 convolution of symbolic size (torch 2.14)
            return project(input, self.weight.flatten(1), self.bias)
        return super().forward(input)

    def reset_parameters(self) -> None:
        start_small(self, self.std)


class XavierPointConv(PointConv):
    """The same, with the first values of CARAFE and FADE."""

    def forward(self, input: Tensor) -> Tensor:
        y = super().forward(input)
        # nor can it lay out the larger convolution that follows, unless the map is contiguous
        return y.contiguous() if torch.compiler.is_compiling() else y

    def reset_parameters(self) -> None:
        start_xavier(self)


def norm_and_project(x: Tensor, norm: nn.Module, layer: nn.Module) -> Tensor:
    """layer(norm(x)); in one go where both are the layers of this file, so that the normalised map is never written."""
    # a mode or a hook on all modules may ask which layer does what, as the counter of operations does
    is_alone = torch.compiler.is_compiling() or not (torch._C._len_torch_dispatch_stack() or _has_any_global_hook())
    is_alone = is_alone and is_plain(norm) and is_plain(layer)
    if is_alone and isinstance(norm, PointNorm) and norm.elementwise_affine and isinstance(layer, PointLinear):
        return project(x, layer.weight, layer.bias, norm)
    return layer(norm(x))


def is_plain(module: nn.Module) -> bool:
    """Whether it is a layer of this file, and nobody wants to see the call itself: no hook, no patch."""
    return (
        type(module) in (PointNorm, PointLinear, PointConv)
        and "forward" not in module.__dict__
        and not (module._forward_hooks or module._forward_pre_hooks)
        and not (module._backward_hooks or module._backward_pre_hooks)
    )


def start_small(layer: nn.Linear | nn.Conv2d, std: float) -> None:
    """A small deviation and no bias, so that scores start near zero and weights near a K*K box."""
    nn.init.normal_(layer.weight, std=std)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)


def start_xavier(layer: nn.Conv2d) -> None:
    """Uniform weights after Glorot, and no bias."""
    nn.init.xavier_uniform_(layer.weight)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)


def make_norm(owner: str, name: str, channels: int, *, affine: bool = True) -> nn.Module:
    """The norm called "layer", "group" or "none" for a map of this many channels."""
    if name == "layer":
        return PointNorm(channels, elementwise_affine=affine)
    if name == "none":
        return nn.Identity()
    if channels % GROUPS:
        raise ValueError(
            f"{owner}: norm='group' has {GROUPS} groups and cannot split {channels} channels; the nearest that works "
            f"is {max(GROUPS, round(channels / GROUPS) * GROUPS)}, or use norm='layer'."
        )
    return nn.GroupNorm(GROUPS, channels, affine=affine)
