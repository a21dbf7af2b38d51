"""Where things are: the low-res centre of each high-res point, which taps fall inside, the memory format of a map."""

import torch
import torch.nn.functional as F
from torch import Tensor

Size = tuple[int, int]


def size_of(x: Tensor) -> Size:
    return x.shape[-2], x.shape[-1]


def centres(high: int, low: int, device: torch.device) -> Tensor:
    """c(p) = floor((p + 1/2) * low / high) for p in range(high), in integers so that no ratio is rounded."""
    return (2 * torch.arange(high, device=device) + 1) * low // (2 * high)


def taps(centre: Tensor, K: int) -> Tensor:
    """The low-res points of the windows around these: [H] to [H, K]."""
    return centre[:, None] + torch.arange(-(K // 2), K // 2 + 1, device=centre.device)


def nearness(p: Tensor, tap: Tensor, high: int, low: int, sigma: float) -> Tensor:
    """Log weight of low-res points [H, K] by their distance from high-res points [H], a Gaussian in low-res points."""
    # in integers, so that no place is rounded
    distance = ((2 * p[:, None] + 1) * low - (2 * tap + 1) * high) / (2 * high)
    return distance.square() / (-2 * sigma**2)


def inside(size: Size, low: Size, kernel_size: Size, device: torch.device) -> Tensor:
    """Whether tap t of point p lies in the image: [P, H, W]."""
    axes = []
    for high, length, K in zip(size, low, kernel_size, strict=True):
        i = taps(centres(high, length, device), K).T
        axes.append((i >= 0) & (i < length))  # [K, H]
    rows, columns = axes
    return (rows[:, None, :, None] & columns[None, :, None, :]).flatten(0, 1)


def nearest(x: Tensor, size: Size) -> Tensor:
    """Give every high-res point the low-res value at its centre: [B, C, h, w] to [B, C, H, W]."""
    if _repeats(size, size_of(x)):
        if _is_mapped():  # vmap has no rule for interpolate
            Sy, Sx = size[0] // x.shape[2], size[1] // x.shape[3]
            y = x[:, :, :, None, :, None].expand(-1, -1, -1, Sy, -1, Sx).flatten(4, 5).flatten(2, 3)
            return y.clone() if size == size_of(x) else y
        # equal to the line below only because the ratio is whole: interpolate rounds c(p) in floating point
        return F.interpolate(x, size, mode="nearest-exact")
    rows, columns = (centres(high, low, x.device) for high, low in zip(size, size_of(x), strict=True))
    return x[..., rows[:, None], columns]


def _is_mapped() -> bool:
    if not torch._C._are_functorch_transforms_active():
        return False
    functorch = torch._C._functorch  # type: ignore[attr-defined]
    return any(level.key() == functorch.TransformType.Vmap for level in functorch.get_interpreter_stack())


def pixel_shuffle(x: Tensor, scale: Size) -> Tensor:
    """Spread S_y*S_x neighbouring channels over the points of each cell: [B, C*S_y*S_x, h, w] to [B, C, H, W]."""
    return x.unflatten(1, (-1, *scale)).permute(0, 1, 4, 2, 5, 3).flatten(4, 5).flatten(2, 3)


def spread_cells(x: Tensor, scale: Size, size: Size) -> Tensor:
    """`pixel_shuffle`, without what is beyond the size where the last cells are not whole."""
    if _repeats(size, scale):
        return pixel_shuffle(x, scale)
    rows, columns = (torch.arange(N, device=x.device) for N in size)
    (Sy, Sx), rows = scale, rows[:, None]
    return x.unflatten(1, (-1, *scale))[:, :, rows % Sy, columns % Sx, rows // Sy, columns // Sx]


def fill_cells(x: Tensor, scale: Size) -> Tensor:
    """Add zeros at the bottom and on the right, so that the last cells of S_y*S_x points are whole."""
    if _repeats(size_of(x), scale):
        return x
    # S - 1 of them for every size, also a symbolic one: a stride of S passes over what is too many
    return F.pad(x, (0, scale[1] - 1, 0, scale[0] - 1))


def collect(y: Tensor, low: Size) -> Tensor:
    """Add up the high-res points of each centre, the transpose of `nearest`: [B, C, H, W] to [B, C, h, w]."""
    (H, W), (h, w) = size_of(y), low
    if _repeats((H, W), low):
        return F.avg_pool2d(y, (H // h, W // w), divisor_override=1)
    y = y.new_zeros(*y.shape[:-2], h, W).index_add(-2, centres(H, h, y.device), y)
    return y.new_zeros(*y.shape[:-2], h, w).index_add(-1, centres(W, w, y.device), y)


def _repeats(size: Size, low: Size) -> bool:
    # a symbolic size must not be asked: the answer would become a constraint of the exported program
    return not torch.compiler.is_compiling() and size[0] % low[0] == 0 and size[1] % low[1] == 0


def memory_format(x: Tensor) -> torch.memory_format:
    """channels_last if the channels of a point lie side by side, also in a slice or a batch with gaps."""
    _, C, _, _ = x.shape
    is_last = C > 1 and x.stride(3) >= C and x.stride(1) == 1
    return torch.channels_last if is_last else torch.contiguous_format


def keep_format(y: Tensor, x: Tensor) -> Tensor:
    """Lay `y` out densely in the format of `x`."""
    if memory_format(x) is torch.channels_last:
        # not contiguous(memory_format=...), which vmap does not know
        return y.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)
    return y.contiguous()
