"""attend, kernels, assemble, project: check the arguments, choose a backend, call it.

The letters, here and everywhere: `B` batch, `C` value channels, `D` embedding channels, `H W` high-res, `h w` low-res,
`K` kernel size (`Kh Kw` where the axes differ), `P = Kh*Kw` taps of a window row by row, `G` groups. Upper case is
high-res, lower case low-res. A point p of the high-res grid looks at the window around its centre
c(p) = floor((p + 1/2) * h / H) of the low-res grid; docs/operators.md draws it.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from sapa import checks, ops, shortcut
from sapa.backends import choose, forced, reference
from sapa.geometry import Size, inside, size_of

Bias = tuple[Tensor, Tensor] | None


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    kernel_size: int | Size = 5,
    normalize: str = "softmax",
    border: str = "zero",
    bias: Bias = None,
) -> Tensor:
    """Upsample `v` by the similarity of each high-res query to the low-res keys around its centre.

    The K*K weights of a point are never kept: this is `assemble(v, kernels(q, k))` without the tensor in between.

    Args:
        q: queries [B, D, H, W], for any H >= h and W >= w.
        k: keys [B, D, h, w].
        v: values [B, C, h, w].
        kernel_size: odd K, or (Kh, Kw).
        normalize: how scores become weights. "softmax"; "relu", "sigmoid" or "softplus" divided by their sum plus
            1e-6; "none" takes the scores as they are.
        border: taps outside the image. "zero" keeps them with key 0 and value 0 as the official code does, so a
            map darkens towards its frame; "mask" leaves them out.
        bias: added to the scores, as rows [H, Kh] and columns [W, Kw]; -inf leaves a tap out.

    Returns:
        [B, C, H, W] in the dtype and memory format of `v`.

    >>> q, k, v = torch.randn(1, 32, 64, 64), torch.randn(1, 32, 32, 32), torch.randn(1, 256, 32, 32)
    >>> sapa.attend(q, k, v).shape
    torch.Size([1, 256, 64, 64])

    Paper: Eq. 2 and 3 in one.
    """
    if bias is None and (known := shortcut.attend(q, k, v, kernel_size, normalize, border)) is not None:
        return known(q, k, v)
    checks.bind("attend", q=(q, "B D H W"), k=(k, "B D h w"), v=(v, "B C h w"))
    q, k, v = ops.autocast(q, k, v)
    checks.same_dtype("attend", q=q, k=k, v=v)
    window = _window("attend", q, kernel_size, normalize, border, bias)
    if _is_plain():
        return reference.attend(q, k, v, bias, *window)
    if shortcut.is_open(q, k, v, *(bias or ())):
        if bias is None:
            shortcut.remember(q, k, v, kernel_size, normalize, border)
        return choose("attend", v.device).attend(q, k, v, bias, *window)
    return torch.ops.sapa.attend(q, k, v, *(bias or (None, None)), *window)


def kernels(
    q: Tensor,
    k: Tensor,
    *,
    kernel_size: int | Size = 5,
    normalize: str = "softmax",
    border: str = "zero",
    bias: Bias = None,
) -> Tensor:
    """Compute the weights that `attend` applies, to look at them or to use them with `assemble`.

    Args: as for `attend`.

    Returns:
        [B, Kh*Kw, H, W], taps row by row from the top left, in the dtype and memory format of `q`.

    >>> sapa.kernels(q, k).sum(1)  # all ones
    """
    checks.bind("kernels", q=(q, "B D H W"), k=(k, "B D h w"))
    q, k = ops.autocast(q, k)
    checks.same_dtype("kernels", q=q, k=k)
    window = _window("kernels", q, kernel_size, normalize, border, bias)
    if _is_plain():
        return reference.kernels(q, k, bias, *window)
    return torch.ops.sapa.kernels(q, k, *(bias or (None, None)), *window)


def assemble(
    v: Tensor, w: Tensor, *, kernel_size: int | Size | None = None, groups: int = 1, border: str = "zero"
) -> Tensor:
    """Upsample `v` with weights from elsewhere: each high-res point sums the window around its centre.

    Args:
        v: values [B, C, h, w].
        w: weights [B, G*Kh*Kw, H, W], for any H >= h and W >= w; the taps of one group lie side by side.
        kernel_size: odd K, or (Kh, Kw); a square one is read off `w`.
        groups: G; each of C/G neighbouring channels shares its weights.
        border: "zero" takes values outside the image as 0; "mask" hands the weight that falls outside to the taps
            inside, in proportion, so that weights of one sign keep their sum.

    Returns:
        [B, C, H, W] in the dtype and memory format of `v`.

    >>> w = torch.rand(1, 25, 64, 64).softmax(1)
    >>> sapa.assemble(v, w).shape
    torch.Size([1, 256, 64, 64])

    Paper: Eq. 2.
    """
    checks.bind("assemble", v=(v, "B C h w"), w=(w, "B G*P H W"))
    v, w = ops.autocast(v, w)
    checks.same_dtype("assemble", v=v, w=w)
    checks.one_of("assemble", "border", border, checks.BORDER)
    window = checks.grouped("assemble", v, w, kernel_size, groups)
    if border == "mask":
        w = _hand_inside(w, size_of(v), window, groups)
    if _is_plain():
        return reference.assemble(v, w, window, groups)
    if shortcut.is_open(v, w):
        return choose("assemble", v.device).assemble(v, w, window, groups)
    return torch.ops.sapa.assemble(v, w, window, groups)


def project(x: Tensor, weight: Tensor, bias: Tensor | None = None, norm: torch.nn.LayerNorm | None = None) -> Tensor:
    """Project the channels of each point, after LayerNorm over them if one is given, without a normalised copy of x.

    Args:
        x: map [B, C, H, W].
        weight: [D, C].
        bias: [D].
        norm: LayerNorm of C channels with weight and bias.

    Returns:
        [B, D, H, W] in the dtype and memory format of `x`.
    """
    checks.bind("project", x=(x, "B C H W"), weight=(weight, "D C"))
    D, C = weight.shape
    parameters = (bias, None, None, None) if norm is None else (bias, norm.weight, norm.bias, norm.eps)
    given = {"bias": (bias, D)} | (
        {} if norm is None else {"norm.weight": (norm.weight, C), "norm.bias": (norm.bias, C)}
    )
    for name, (parameter, size) in given.items():
        if parameter is not None and tuple(parameter.shape) != (size,):
            expected = checks.describe("weight", weight, "D C")
            raise ValueError(f"project: {name} is {list(parameter.shape)}, but {expected}: it must be [{size}].")
    if norm is not None and (norm.weight is None or norm.bias is None):
        raise ValueError("project: norm must have a weight and a bias: LayerNorm(C, elementwise_affine=True).")
    if ops.is_autocast(x.device.type):
        # a norm is made in the precision x has, a projection in the lower one
        dtype = torch.get_autocast_dtype(x.device.type) if x.dtype != torch.float64 else x.dtype
        with torch.autocast(x.device.type, enabled=False):
            return _project(x if norm is not None else x.to(dtype), weight, parameters).to(dtype)
    checks.same_dtype("project", x=x, weight=weight)
    return _project(x, weight, parameters)


def _project(x: Tensor, weight: Tensor, parameters: tuple[Any, ...]) -> Tensor:
    if _is_plain():
        return reference.project(x, weight, *parameters)
    if shortcut.is_open(x, weight, *(p for p in parameters if isinstance(p, Tensor))):
        return choose("project", x.device).project(x, weight, *parameters)
    return torch.ops.sapa.project(x, weight, *parameters)


def _window(
    function: str, q: Tensor, kernel_size: int | Size, normalize: str, border: str, bias: Bias
) -> tuple[Size, str, str]:
    checks.one_of(function, "normalize", normalize, checks.NORMALIZE)
    checks.one_of(function, "border", border, checks.BORDER)
    pair = checks.odd_pair(function, kernel_size)
    if bias is not None:
        checks.position_bias(function, bias, q, pair)
    return pair, normalize, border


def _hand_inside(w: Tensor, low: Size, kernel_size: Size, groups: int) -> Tensor:
    is_inside = inside(size_of(w), low, kernel_size, w.device)
    grouped = w.unflatten(1, (groups, -1)).to(torch.promote_types(w.dtype, torch.float32))  # [B, G, P, H, W]
    kept = grouped * is_inside
    total, share = grouped.sum(2, keepdim=True), kept.sum(2, keepdim=True)
    is_empty = share == 0
    return (kept * (total / share.masked_fill(is_empty, 1)).masked_fill(is_empty, 1)).flatten(1, 2).to(w.dtype)


def _is_plain() -> bool:
    # torch.func and forward-mode derivatives cannot enter the registered operators; the reference is made of what
    # they can enter
    return forced() == "reference" or torch._C._are_functorch_transforms_active() or forward_ad._current_level >= 0
