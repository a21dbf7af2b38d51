"""What attend is compared with: the ways to write it without a kernel of its own, other upsampling, and two limits."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

import sapa
from sapa.bench import rivals
from sapa.bench.timing import Function

SCALE = 2
GEMM = 1024
LAYOUTS = {"NCHW": torch.contiguous_format, "channels_last": torch.channels_last}


@dataclass(frozen=True)
class Peer:
    """A function of tensors, and tensors to call it with."""

    run: Callable[..., Tensor]
    inputs: tuple[Tensor, ...]

    def forward(self) -> Function:
        frozen = [x.detach() for x in self.inputs]
        return lambda: self.run(*frozen)

    def trained(self) -> Function:
        """Forward and backward to every input, from a gradient in the format of the output."""
        leaves = [x.detach().requires_grad_() for x in self.inputs]
        g = torch.randn_like(self.forward()())  # type: ignore[arg-type]
        return lambda: torch.autograd.grad(self.run(*leaves), leaves, g)


def peers(
    shape: tuple[int, int, int, int],
    layout: str,
    kernel_size: int,
    embed_dim: int,
    dtype: torch.dtype,
    device: str = "cpu",
) -> dict[str, Peer]:
    """Each peer by its name, all with the same low-res map and the same output size."""

    def random(*size: int) -> Tensor:
        return torch.randn(size).to(device, dtype).contiguous(memory_format=LAYOUTS[layout])

    (B, C, h, w), K = shape, kernel_size
    H, W = SCALE * h, SCALE * w
    attended = random(B, embed_dim, H, W), random(B, embed_dim, h, w), random(*shape)
    v = attended[2]
    weight = 0.01 * random(C, C, SCALE, SCALE)
    # the regular points of the output, each moved by about one of its own pixels, as DySample learns to
    grid = F.affine_grid(torch.eye(2, 3).expand(B, 2, 3), [B, C, H, W], align_corners=False)
    grid = (grid + torch.randn_like(grid) / torch.tensor([W, H])).to(device, dtype)
    square = torch.randn(GEMM, GEMM, device=device)  # float32 even for narrower maps, as the kernels compute them in it
    compiled = torch.compile(shift_loop, dynamic=False)
    weights = random(B, K * K, H, W)
    return {
        "attend": Peer(partial(sapa.attend, kernel_size=K), attended),
        "unfold": Peer(partial(unfolded, kernel_size=K), attended),
        "shift loop": Peer(partial(compiled, kernel_size=K), attended),
        "bilinear": Peer(partial(F.interpolate, scale_factor=SCALE, mode="bilinear"), (v,)),
        "bicubic": Peer(partial(F.interpolate, scale_factor=SCALE, mode="bicubic"), (v,)),
        "conv_transpose": Peer(partial(F.conv_transpose2d, stride=SCALE), (v, weight)),
        "grid_sample": Peer(partial(F.grid_sample, padding_mode="border", align_corners=False), (v, grid)),
        "assemble": Peer(sapa.assemble, (v, weights)),
        "official extension": Peer(partial(rivals.official, kernel_size=K), attended),
        "mmcv carafe": Peer(partial(rivals.carafe, kernel_size=K), (v, weights)),
        "copy": Peer(torch.clone, (random(B, C, H, W),)),
        "gemm": Peer(torch.mm, (square, square)),
    }


def unfolded(q: Tensor, k: Tensor, v: Tensor, kernel_size: int) -> Tensor:
    """attend as it is written today: every window copied, K*K times the map."""
    (B, C, h, w), (D, H, W), K = v.shape, q.shape[1:], kernel_size
    keys = F.unfold(k, K, padding=K // 2).view(B, D, K * K, h, w)
    values = F.unfold(v, K, padding=K // 2).view(B, C, K * K, h, w)
    split = q.reshape(B, D, h, H // h, w, W // w)
    weights = torch.einsum("bdhiwj,bdphw->bphiwj", split, keys).softmax(1)
    return torch.einsum("bphiwj,bcphw->bchiwj", weights, values).reshape(B, C, H, W)


def shift_loop(q: Tensor, k: Tensor, v: Tensor, kernel_size: int) -> Tensor:
    """attend as a compiler likes it: one term for each of the K*K shifts of the low-res map."""
    (B, C, h, w), (D, H, W), K = v.shape, q.shape[1:], kernel_size
    split = q.reshape(B, D, h, H // h, w, W // w)
    k, v = (F.pad(x, [K // 2] * 4).unsqueeze(3).unsqueeze(5) for x in (k, v))  # [B, ., h + K - 1, 1, w + K - 1, 1]
    shifts = [(..., slice(y, y + h), slice(None), slice(x, x + w), slice(None)) for y in range(K) for x in range(K)]
    weights = torch.stack([(split * k[shift]).sum(1) for shift in shifts], 1).softmax(1)  # [B, P, h, S, w, S]
    y = torch.zeros((), dtype=v.dtype, device=v.device)
    for p, shift in enumerate(shifts):
        y = y + weights[:, p, None] * v[shift]
    return y.reshape(B, C, H, W)
