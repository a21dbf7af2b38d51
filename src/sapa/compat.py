"""sim and atn as the official CUDA extension has them: code written for it runs here, on any device.

Both keep the extension's argument order and its NHWC layout, which is what NCHW calls channels_last.
"""

from torch import Tensor

from sapa import checks
from sapa.functional import assemble, kernels


def sim(q: Tensor, k: Tensor, K: int, S: int) -> Tensor:
    """Score the window around the centre of each high-res point: [B, H, W, D] and [B, h, w, D] to [B, H, W, K*K]."""
    _check("sim", K, S, q=(q, "B H W D"), k=(k, "B h w D"))
    return _nhwc(kernels(_nchw(q), _nchw(k), kernel_size=K, normalize="none"))


def atn(w: Tensor, v: Tensor, K: int, S: int) -> Tensor:
    """Sum the window with the weights: [B, H, W, K*K] and [B, h, w, C] to [B, H, W, C]."""
    sizes = _check("atn", K, S, w=(w, "B H W P"), v=(v, "B h w C"))
    if sizes["P"] != K * K:
        raise ValueError(f"atn: P must be K * K = {K * K}, but {checks.describe('w', w, 'B H W P')}.")
    return _nhwc(assemble(_nchw(v), _nchw(w), kernel_size=K))


def _check(function: str, K: int, S: int, **arguments: tuple[Tensor, str]) -> dict[str, int]:
    sizes = checks.bind(function, **arguments)
    checks.odd_pair(function, K)
    checks.positive(function, S=S)
    for high, low in ("Hh", "Ww"):
        if sizes[high] != S * sizes[low]:
            raise ValueError(
                f"{function}: {high} must be S * {low} = {S} * {sizes[low]} = {S * sizes[low]}, got {sizes[high]}. "
                f"sapa.attend, sapa.kernels and sapa.assemble take any size."
            )
    return sizes


def _nchw(x: Tensor) -> Tensor:
    return x.permute(0, 3, 1, 2)


def _nhwc(x: Tensor) -> Tensor:
    return x.permute(0, 2, 3, 1).contiguous()
