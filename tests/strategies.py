"""Hypothesis strategies: problems of every shape, ratio, window, format and dtype the operators take."""

from dataclasses import dataclass

import torch
from hypothesis import strategies as st
from torch import Tensor

DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
FORMATS = ("contiguous", "channels_last", "batch_strided", "sliced", "transposed")


@dataclass
class Problem:
    q: Tensor  # [B, D, H, W]
    k: Tensor  # [B, D, h, w]
    v: Tensor  # [B, C, h, w]
    bias: tuple[Tensor, Tensor] | None
    kernel_size: tuple[int, int]

    @property
    def qkv(self) -> tuple[Tensor, Tensor, Tensor]:
        return self.q, self.k, self.v


def lay_out(x: Tensor, layout: str) -> Tensor:
    """The same numbers, differently in memory."""
    if layout == "channels_last":
        return x.contiguous(memory_format=torch.channels_last)
    if layout == "batch_strided":
        return torch.stack([x, torch.full_like(x, torch.nan)], 1)[:, 0]
    if layout == "sliced":
        return torch.nn.functional.pad(x, (1, 2, 2, 1), value=torch.nan)[..., 2:-1, 1:-2]
    if layout == "transposed":
        return x.transpose(-1, -2).contiguous().transpose(-1, -2)
    return x


@st.composite
def problems(draw: st.DrawFn, *, dtype: torch.dtype | None = torch.float64, min_batch: int = 0) -> Problem:
    """A problem of this dtype, or of any if it is None."""
    dtype = draw(st.sampled_from(DTYPES)) if dtype is None else dtype
    B, C, D = draw(st.integers(min_batch, 2)), draw(st.integers(1, 5)), draw(st.integers(1, 4))
    h, w = draw(st.integers(1, 5)), draw(st.integers(1, 5))
    H, W = draw(st.integers(h, 3 * h + 1)), draw(st.integers(w, 3 * w + 1))
    kernel_size = (draw(st.sampled_from([1, 3, 5])), draw(st.sampled_from([1, 3, 5])))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**16)))

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    shapes = ((B, D, H, W), (B, D, h, w), (B, C, h, w))
    q, k, v = (lay_out(normal(*shape).to(dtype), draw(st.sampled_from(FORMATS))) for shape in shapes)
    bias = None
    if draw(st.booleans()):
        bias = (normal(H, kernel_size[0]), normal(W, kernel_size[1]))
        if kernel_size[0] > 1 and draw(st.booleans()):
            bias[0][0, 0] = -torch.inf
    return Problem(q, k, v, bias, kernel_size)
