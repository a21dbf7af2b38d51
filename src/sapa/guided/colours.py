"""The guide as coordinates in which a distance means a difference one sees."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from sapa.functional import project
from sapa.guided.grid import Grid

# brightness, red against green, yellow against blue: distances come near those of CIELAB for the price of nine products
OPPONENT = ((0.299, 0.587, 0.114), (1.5, -1.5, 0.0), (0.75, 0.75, -1.5))


@dataclass(frozen=True)
class Colours:
    """Colours of a guide around their mean; of a map that has not three channels, its values around their mean."""

    low: Tensor  # of the cells, [B, D, h, w]
    weight: Tensor | None  # [D, Cg]
    mean: Tensor  # [D]

    def queries(self, rows: Tensor, precision: Tensor) -> Tensor:
        """[g, 1] / sigma^2 for rows of the guide: [B, Cg, rows, W] to [B, D + 1, rows, W]

        Its product with `keys` is -|g - k|^2 / (2 sigma^2), up to what a softmax does not see.
        """
        rows = rows.to(self.low.dtype)
        if self.weight is None:
            g = F.pad(rows - self.mean[:, None, None], (0, 0, 0, 0, 0, 1), value=1.0)
        else:  # the ones come out of the projection
            g = project(rows, F.pad(self.weight, (0, 0, 0, 1)), F.pad(-self.mean, (0, 1), value=1.0))
        return g.mul_(precision)  # nobody else has it


def keys(low: Tensor, is_valid: Tensor | None) -> Tensor:
    """[k, -|k|^2 / 2] for the colours of cells; those that are not valid are infinitely far from everything."""
    far = low.square().sum(1, keepdim=True) / -2
    if is_valid is not None:
        far = far.masked_fill(~is_valid, -(torch.finfo(low.dtype).max ** 0.75))
    return torch.cat([low, far], 1)


def colours_of(guide: Tensor, grid: Grid, rows: int, dtype: torch.dtype) -> Colours:
    """Go over the guide once, some rows at a time."""
    parts = [grid.cell_means(guide[..., grid.rows(strip), :].to(dtype), strip) for strip in grid.strips(rows)]
    low, weight = torch.cat(parts, -2), None
    if guide.shape[1] == 3:
        weight = torch.tensor(OPPONENT, dtype=dtype, device=guide.device)
        low = project(low, weight)
    # of the whole batch: any point near the colours will do, as it is only there to keep the squares exact
    mean = low.detach().mean((0, 2, 3))
    return Colours(low - mean[:, None, None], weight, mean)
