"""PixelTCL: Pixel Transposed Convolutional Networks (Gao et al., TPAMI 2019, arXiv 1705.06820)."""

from collections.abc import Callable
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sapa import checks
from sapa.geometry import Size, keep_format, pixel_shuffle, size_of
from sapa.nn.base import Upsampler

FORMS = ("dcl", "idcl")


class PixelTCL(Upsampler):
    """Make the points of a cell one after the other, each from those before it, so that neighbours agree.

    At scale 2 a convolution gives the top left point of every cell, a second the bottom right one, and a third the two
    between them. In the official form "dcl" each reads what the one before wrote: the second the first map, the third
    the half-filled high-res map, which it adds to. In "idcl" each reads x and all maps before it. At other scales the
    convolutions first fill the diagonal of a cell, one by one, and then the rest at once.

    Args:
        channels: C, of the low-res map x.
        guide_channels: of a guide, which only gives the size.
        scale: S, or (S_y, S_x).
        form: "dcl", or "idcl" which also reads the input.
        kernel_size: K, or (Kh, Kw). From a scale of 6 on, 3 no longer reaches from every gap to the diagonal.
        out_channels: `channels` if None.
        activation: what the output goes through; None for nothing.

    Parameters have the names, and the layout (Kh, Kw, inputs, outputs), of the official release.

    >>> up = sapa.build("pixel_tcl", 256)
    >>> y = up(x)  # [B, 256, 32, 32] -> [B, 256, 64, 64]
    """

    any_size: ClassVar[bool] = False

    def __init__(
        self,
        channels: int,
        guide_channels: int | None = None,
        *,
        scale: int | Size = 2,
        form: str = "dcl",
        kernel_size: int | Size = 3,
        out_channels: int | None = None,
        activation: Callable[[Tensor], Tensor] | None = F.relu,
    ) -> None:
        super().__init__(channels, guide_channels, scale=scale)
        D = channels if out_channels is None else out_channels
        checks.positive("PixelTCL", out_channels=D)
        checks.one_of("PixelTCL", "form", form, FORMS)
        self.form, self.activation = form, activation
        self.kernel_size = checks.whole_pair("PixelTCL", "kernel_size", kernel_size)
        Sy, Sx = self.scale
        n = max(Sy, Sx)
        self.diagonal = [(i * Sy // n, i * Sx // n) for i in range(n)]
        self.rest = [(a, b) for b in range(Sx) for a in range(Sy) if (a, b) not in self.diagonal]
        if form == "dcl":
            shapes = [(channels if i == 0 else D, D) for i in range(n)] + [(D, D)] * bool(self.rest)
        else:
            shapes = [(channels + i * D, D) for i in range(n)]
            shapes += [(channels + n * D, len(self.rest) * D)] * bool(self.rest)
        first = 0 if form == "dcl" else 1
        self.names = [f"conv{i}/weights" for i in range(first, first + len(shapes))]
        for name, shape in zip(self.names, shapes, strict=True):
            self.register_parameter(name, nn.Parameter(torch.empty(*self.kernel_size, *shape)))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Uniform weights after Glorot; where the last convolution fills gaps, normal ones cut at two deviations."""
        for name in self.names:
            weight = self.get_parameter(name)
            if self.form == "dcl" and self.rest and name == self.names[-1]:
                nn.init.trunc_normal_(weight)
            else:
                nn.init.xavier_uniform_(weight.permute(3, 2, 0, 1))

    def upsample(self, x: Tensor, guide: Tensor | None, size: Size) -> Tensor:
        weights = [self.get_parameter(name) for name in self.names]
        maps: dict[Size, Tensor] = {}
        read = x
        for place, weight in zip(self.diagonal, weights, strict=False):
            maps[place] = _convolve(read, weight)
            read = maps[place] if self.form == "dcl" else torch.cat([read, maps[place]], 1)
        if self.rest and self.form == "idcl":
            maps.update(zip(self.rest, _convolve(read, weights[-1]).chunk(len(self.rest), 1), strict=True))
        y = self._place(maps)
        if self.rest and self.form == "dcl":
            y = y + self._fill(y, weights[-1])
        return keep_format(y if self.activation is None else self.activation(y), x)

    def _place(self, maps: dict[Size, Tensor]) -> Tensor:
        (Sy, Sx), empty = self.scale, torch.zeros_like(maps[0, 0])
        cell = [maps.get((a, b), empty) for a in range(Sy) for b in range(Sx)]
        return pixel_shuffle(torch.stack(cell, 2).flatten(1, 2), self.scale)

    def _fill(self, y: Tensor, weight: Tensor) -> Tensor:
        if self.scale == (2, 2):
            # the official mask: with odd kernels it leaves the taps that lead from a gap to what is filled
            (Kh, Kw), device = self.kernel_size, weight.device
            taps = torch.arange(Kh, device=device)[:, None] + Kh * torch.arange(Kw, device=device)
            return _convolve(y, weight * (taps % 2)[..., None, None])
        (Sy, Sx), (H, W) = self.scale, size_of(y)
        is_gap = torch.tensor([[(a, b) in self.rest for b in range(Sx)] for a in range(Sy)], device=y.device)
        return _convolve(y, weight) * is_gap.repeat(H // Sy, W // Sx)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, form={self.form!r}, kernel_size={self.kernel_size}"


def _convolve(x: Tensor, weight: Tensor) -> Tensor:
    """With weights (Kh, Kw, inputs, outputs), and as many zeros around that the size stays."""
    Kh, Kw = weight.shape[:2]
    return F.conv2d(F.pad(x, ((Kw - 1) // 2, Kw // 2, (Kh - 1) // 2, Kh // 2)), weight.permute(3, 2, 0, 1))
