"""What every upsampler has in common: the signature, the output size, and the errors."""

from typing import Any, ClassVar

from torch import Tensor, nn

from sapa import checks
from sapa.geometry import Size, keep_format, size_of
from sapa.ops import is_autocast


class Upsampler(nn.Module):
    """Make a feature map larger: `y = up(x)` or `y = up(x, guide)`.

    A subclass sets `needs_guide` and `any_size`, and defines `upsample(x, guide, size)`.

    Args:
        channels: C, of the low-res map.
        guide_channels: of the high-res guide; `channels` if None.
        scale: S, or (S_y, S_x). Where a guide is given, its size is the output size instead. A method that can only
            multiply the size (`any_size` is False) makes S times the size of x, and cuts what the guide does not have:
            x is then as large as a stride of S leaves of the guide, h = ceil(H / S).
    """

    needs_guide: ClassVar[bool] = False
    any_size: ClassVar[bool] = True

    def __init__(self, channels: int, guide_channels: int | None = None, *, scale: int | Size = 2) -> None:
        super().__init__()
        self.channels = channels
        self.guide_channels = channels if guide_channels is None else guide_channels
        self.scale = checks.scale_pair(type(self).__name__, scale)
        checks.positive(type(self).__name__, channels=channels, guide_channels=self.guide_channels)

    def forward(self, x: Tensor, guide: Tensor | None = None) -> Tensor:
        """[B, C, h, w], and a guide [B, Cg, H, W], to [B, C, H, W]."""
        size = self.check(x, guide)
        if self.any_size:
            return self.upsample(x, guide, size)
        y = self.upsample(x, guide, (self.scale[0] * x.shape[2], self.scale[1] * x.shape[3]))
        return y if size_of(y) == size else keep_format(y[..., : size[0], : size[1]], x)

    def upsample(self, x: Tensor, guide: Any, size: Size) -> Tensor:
        """What a subclass defines; `guide` is a tensor where `needs_guide`."""
        raise TypeError(f"{type(self).__name__} does not define upsample(x, guide, size).")

    def check(self, x: Tensor, guide: Tensor | None) -> Size:
        """Raise where x or guide do not fit this module; return the output size."""
        function = type(self).__name__
        if guide is None:
            if self.needs_guide:
                raise ValueError(
                    f"{function} needs the high-res map of the encoder: call up(x, guide) with x [B, {self.channels}, "
                    f"h, w] and guide [B, {self.guide_channels}, H, W]. Without a guide: {_unguided()}."
                )
            sizes = checks.bind(function, x=(x, "B C h w"))
            size = (self.scale[0] * sizes["h"], self.scale[1] * sizes["w"])
        else:
            sizes = checks.bind(function, x=(x, "B C h w"), guide=(guide, "B Cg H W"))
            size = (sizes["H"], sizes["W"])
            if self.needs_guide:  # else only its size counts
                self._expects("guide", self.guide_channels, guide, "B Cg H W")
            if self.needs_guide and not is_autocast(x.device.type):
                checks.same_dtype(function, x=x, guide=guide)
            if not self.any_size:
                self._fits(x, size)
        self._expects("x", self.channels, x, "B C h w")
        parameter = next(self.parameters(), None)
        if parameter is not None and parameter.dtype != x.dtype and not is_autocast(x.device.type):
            raise ValueError(
                f"{function}: the parameters are {checks.plain(parameter.dtype)} but x is {checks.plain(x.dtype)}: "
                f"convert x, or the module with up.to(x.dtype)."
            )
        return size

    def _expects(self, name: str, channels: int, x: Tensor, letters: str) -> None:
        if channels != x.shape[1]:
            argument = "guide_channels" if name == "guide" else "channels"
            raise ValueError(
                f"{type(self).__name__} was built for {channels} channels of {name}, but "
                f"{checks.describe(name, x, letters)}. Build it with {argument}={x.shape[1]} for such maps."
            )

    def _fits(self, x: Tensor, size: Size) -> None:
        low = size_of(x)
        if any(not S * (n - 1) < N <= S * n for S, n, N in zip(self.scale, low, size, strict=True)):
            needed = [-(-N // S) for S, N in zip(self.scale, size, strict=True)]
            raise ValueError(
                f"{type(self).__name__} multiplies the size by scale={_plain(self.scale)}: for the guide's "
                f"{size[0]}x{size[1]} it needs x of {needed[0]}x{needed[1]}, but x is {low[0]}x{low[1]}. Build it with "
                f"another scale, or take one that fits any size: bilinear, sapa_b."
            )

    def extra_repr(self) -> str:
        return f"{self.channels}, {self.guide_channels}, scale={_plain(self.scale)}"


def _plain(scale: Size) -> int | Size:
    return scale[0] if scale[0] == scale[1] else scale


def _unguided() -> str:
    from sapa.nn import UPSAMPLERS, needs_guide

    return ", ".join(name for name in UPSAMPLERS if not needs_guide(name))
