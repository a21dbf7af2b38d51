"""The guide as coordinates in which a distance means a difference one sees."""

from dataclasses import dataclass

import torch
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

    def __call__(self, rows: Tensor) -> Tensor:
        """[B, Cg, rows, W] to [B, D, rows, W]"""
        rows = rows.to(self.low.dtype)
        return rows - self.mean[:, None, None] if self.weight is None else project(rows, self.weight, -self.mean)


def colours_of(guide: Tensor, grid: Grid, rows: int, dtype: torch.dtype) -> Colours:
    """Go over the guide once, some rows at a time."""
    parts = [grid.cell_means(guide[..., grid.rows(strip), :].to(dtype), strip) for strip in grid.strips(rows)]
    low, weight = torch.cat(parts, -2), None
    if guide.shape[1] == 3:
        weight = torch.tensor(OPPONENT, dtype=dtype, device=guide.device)
        weight = weight / 255 if guide.dtype == torch.uint8 else weight
        low = project(low, weight)
    # of the whole batch: any point near the colours will do, as it is only there to keep the squares exact
    mean = low.detach().mean((0, 2, 3))
    return Colours(low - mean[:, None, None], weight, mean)
