"""A position prior: scores by distance, so that training starts from a smooth interpolation."""

from math import log

import torch
from torch import Tensor, nn

from sapa.checks import one_of
from sapa.geometry import Size, centres

PRIORS = ("gaussian", "bilinear")

# log of the weight where bilinear has none: nothing beside the others, yet a strong similarity can still reach it
FLOOR = -24.0


class Prior(nn.Module):
    """Learned rows [S_y, Kh] and columns [S_x, Kw]: the log weight of each tap for each phase of a point in its cell.

    Args:
        kind: "gaussian" with a deviation of half a low-res point, or "bilinear".
        scale: (S_y, S_x).
        kernel_size: (Kh, Kw).
    """

    def __init__(self, kind: str, scale: Size, kernel_size: Size) -> None:
        super().__init__()
        one_of("SAPA", "prior", kind, PRIORS)
        if min(kernel_size) < 3:
            raise ValueError(f"SAPA: a prior interpolates between taps and needs kernel_size >= 3, got {kernel_size}.")
        self.kind = kind
        self.rows, self.columns = (nn.Parameter(torch.empty(S, K)) for S, K in zip(scale, kernel_size, strict=True))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Write the tables of the interpolation."""
        for table in (self.rows, self.columns):
            with torch.no_grad():
                table.copy_(_table(self.kind, *table.shape))

    def extra_repr(self) -> str:
        return self.kind

    def forward(self, size: Size, low: Size) -> tuple[Tensor, Tensor]:
        """The bias of `attend` for these sizes: rows [H, Kh] and columns [W, Kw]."""
        tables = []
        for table, H, h in zip((self.rows, self.columns), size, low, strict=True):
            S = table.shape[0]
            tables.append(table[centres(H, S * h, table.device) % S])
        return tables[0], tables[1]


def _table(kind: str, S: int, K: int) -> Tensor:
    phase = [(a + 0.5) / S - 0.5 for a in range(S)]
    distance = [[abs(t - f) for t in range(-(K // 2), K // 2 + 1)] for f in phase]
    if kind == "gaussian":
        return torch.tensor([[-0.5 * (d / 0.5) ** 2 for d in row] for row in distance], dtype=torch.float64)
    return torch.tensor([[log(1 - d) if d < 1 else FLOOR for d in row] for row in distance], dtype=torch.float64)
