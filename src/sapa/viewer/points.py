"""Where to look first: the smoothest window, and a point on either side of the clearest edge."""

import torch
import torch.nn.functional as F
from torch import Tensor

from sapa.geometry import centres, size_of

AROUND = 1  # low-res points to each side of an edge where its two sides are looked for

Point = tuple[int, int]


def suggest(x: Tensor, guide: Tensor, kernel_size: int = 5) -> list[tuple[str, Point]]:
    """Names and high-res points (row, column). A map smaller than a window has its middle alone."""
    (H, W), (h, w), K = size_of(guide), size_of(x), kernel_size
    if min(h, w) < K + 2:
        return [("the middle", (H // 2, W // 2))]
    # [n, P, C], those that lie inside, also after a step to a neighbour
    windows = F.unfold(x[..., 1:-1, 1:-1], K)[0].unflatten(0, (-1, K * K)).permute(2, 1, 0)
    windows = windows - windows.mean(1, keepdim=True)
    # of the inner products rather than the covariances, which are larger: their eigenvalues are the same
    spread = torch.linalg.eigvalsh(windows @ windows.mT)  # [n, P], ascending
    total, first = spread.sum(1), spread[:, -1]
    # large, and along one direction alone: two regions rather than many
    edge = int((first * first / total.clamp_min(1e-12)).argmax())
    # no point far from the others, rather than a small sum: one of another kind would take the weights
    even = int(windows.square().sum(2).amax(1).argmin())
    places = [divmod(i, w - K - 1) for i in (even, edge)]
    flat, split = [(row + 1 + K // 2, column + 1 + K // 2) for row, column in places]
    if float(total.max()) < 1e-9:
        return [("flat", _middle(flat, x, guide))]
    one, other = _sides(split, x, guide)
    return [("an edge", one), ("its other side", other), ("flat", _middle(flat, x, guide))]


def _middle(low: Point, x: Tensor, guide: Tensor) -> Point:
    """The middle high-res point of a cell."""
    cells = zip(low, size_of(guide), size_of(x), strict=True)
    found = [(centres(N, n, x.device) == i).nonzero().flatten() for i, N, n in cells]
    return int(found[0][len(found[0]) // 2]), int(found[1][len(found[1]) // 2])


def _sides(low: Point, x: Tensor, guide: Tensor) -> tuple[Point, Point]:
    """The two high-res points around this cell that differ most along what differs most there, left one first."""
    sizes = zip(low, size_of(guide), size_of(x), strict=True)
    rows, columns = (((centres(N, n, x.device) - i).abs() <= AROUND).nonzero().flatten().tolist() for i, N, n in sizes)
    part = guide[0][:, rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1].flatten(1)
    part = part - part.mean(1, keepdim=True)
    direction = torch.linalg.svd(part, full_matrices=False).U[:, 0]
    along = direction @ part
    # the second most extreme of each side: one point alone may be an outlier
    rank = min(2, along.numel())
    ends = (int(along.topk(rank).indices[-1]), int((-along).topk(rank).indices[-1]))
    points = [(rows[0] + end // len(columns), columns[0] + end % len(columns)) for end in ends]
    return tuple(sorted(points, key=lambda point: (point[1], point[0])))  # type: ignore[return-value]
