"""Joint bilateral upsampling (Kopf et al., SIGGRAPH 2007), which needs no training."""

from contextlib import nullcontext
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from sapa import checks
from sapa.functional import attend
from sapa.geometry import Size, centres, nearness, size_of, taps
from sapa.nn.base import Upsampler
from sapa.ops import is_autocast

# part of the guide's deviation that counts as one step of similarity where no sigma is given
STEP = 0.2


def joint_bilateral(
    x: Tensor,
    guide: Tensor,
    *,
    kernel_size: int | Size = 5,
    sigma: float | None = None,
    sigma_space: float = 0.5,
) -> Tensor:
    """Upsample `x` as a mean of the low-res points around, weighted by likeness in the guide and by nearness.

    Args:
        x: low-res map [B, C, h, w].
        guide: high-res map [B, Cg, H, W]; its means over the cells are what its points are compared with.
        kernel_size: odd K, or (Kh, Kw).
        sigma: deviation of the Gaussian of likeness, in the units of the guide. None takes 0.2 of the deviation of
            each sample's guide, whatever its units.
        sigma_space: deviation of the Gaussian of nearness, in low-res points.

    Returns:
        [B, C, H, W] in the dtype and memory format of `x`.

    -|q - k|^2 / 2s^2 is written as an inner product, up to what the softmax of `attend` does not see.
    """
    checks.bind("joint_bilateral", x=(x, "B C h w"), guide=(guide, "B Cg H W"))
    _are_positive("joint_bilateral", sigma=sigma, sigma_space=sigma_space)
    window = checks.odd_pair("joint_bilateral", kernel_size)
    # the squares below are lost in a half type
    wide = torch.promote_types(torch.promote_types(x.dtype, guide.dtype), torch.float32)
    device = x.device.type
    with torch.autocast(device, enabled=False) if is_autocast(device) else nullcontext():
        g = guide.to(wide)
        g = g - g.mean((2, 3), keepdim=True)
        squares = g.square().sum(1, keepdim=True)
        variance = sigma**2 if sigma is not None else _step(squares)
        low = F.adaptive_avg_pool2d(g, size_of(x))
        q = torch.cat([g, torch.ones_like(squares)], 1) / variance
        k = torch.cat([low, low.square().sum(1, keepdim=True) / -2], 1)
        axes = zip(size_of(guide), size_of(x), window, strict=True)
        rows, columns = (
            nearness(torch.arange(H, device=g.device), taps(centres(H, h, g.device), K), H, h, sigma_space)
            for H, h, K in axes
        )
        y = attend(q, k, x.to(wide), kernel_size=window, border="mask", bias=(rows, columns))
    return y.to(x.dtype)


class JointBilateral(Upsampler):
    """Joint bilateral upsampling: sharpen a map by the photo, or any other map, it belongs to; nothing is learned.

    Args:
        channels: C, of the low-res map x.
        guide_channels: of the guide; `channels` if None.
        scale: the output has the size of the guide.
        kernel_size: odd K, or (Kh, Kw).
        sigma: of the likeness in the guide, see `joint_bilateral`.
        sigma_space: of the nearness, in low-res points.

    >>> up = sapa.build("joint_bilateral", 1, guide_channels=3)
    >>> y = up(depth, photo)  # [B, 1, 60, 80], [B, 3, 480, 640] -> [B, 1, 480, 640]
    """

    needs_guide: ClassVar[bool] = True

    def __init__(
        self,
        channels: int,
        guide_channels: int | None = None,
        *,
        scale: int | Size = 2,
        kernel_size: int | Size = 5,
        sigma: float | None = None,
        sigma_space: float = 0.5,
    ) -> None:
        super().__init__(channels, guide_channels, scale=scale)
        self.kernel_size = checks.odd_pair("JointBilateral", kernel_size)
        _are_positive("JointBilateral", sigma=sigma, sigma_space=sigma_space)
        self.sigma, self.sigma_space = sigma, sigma_space

    def extra_repr(self) -> str:
        options = f"kernel_size={self.kernel_size}, sigma={self.sigma}, sigma_space={self.sigma_space}"
        return f"{super().extra_repr()}, {options}"

    def upsample(self, x: Tensor, guide: Tensor, size: Size) -> Tensor:
        return joint_bilateral(x, guide, kernel_size=self.kernel_size, sigma=self.sigma, sigma_space=self.sigma_space)


def _are_positive(function: str, **values: float | None) -> None:
    for name, value in values.items():
        if value is not None and not value > 0:
            raise ValueError(f"{function}: {name} must be positive, got {value!r}.")


def _step(squares: Tensor) -> Tensor:
    variance = STEP**2 * squares.mean((2, 3), keepdim=True)
    # a guide without any difference compares as equal
    return variance.clamp_min(torch.finfo(squares.dtype).tiny)
