"""Upsampling sites: where they are, what they do, and which maps could guide them. They print as a table."""

from dataclasses import dataclass, field

import torch

from sapa.geometry import Size
from sapa.surgery.trace import Address
from sapa.tables import Cell, Table

COLUMNS = ("site", "operator", "from", "to", "channels", "guide", "by way of", "note")


@dataclass(frozen=True)
class Guide:
    """A high-res map that is there when a site runs.

    Attributes:
        name: to choose it with `guide=`.
        channels, size: of the map, on the example.
        joined: how it meets the result of the site later: added, concatenated ...; "" if it does not.
        address: where the running model has it.
        scope, depth: path of the innermost module in whose call both it and the site lie, and how deep that is.
        is_changed: whether the model writes over it later.
    """

    name: str
    channels: int
    size: Size
    joined: str
    address: Address
    scope: str
    depth: int
    is_changed: bool

    def __str__(self) -> str:
        return f"{self.name} ({self.channels})"


@dataclass
class Site:
    """A call that makes a map larger.

    Attributes:
        name: path of the module in whose forward the call stands, with a number if it has several.
        path, ordinal: that module, and which of its resizing calls.
        caller, turn: the module that calls it, and for which time; None if this is the same at all its calls.
        function, mode: interpolate, pixel_shuffle or conv_transpose2d, and the mode of the first.
        low, size: of the map before and after, on the example.
        channels, out_channels: likewise.
        dtype, device: of the low-res map.
        guides: maps of the size of the result, the best first.
        between: maps of the sizes in between, for a chain of smaller steps.
        is_pooled: whether it only spreads a map that was pooled to a fixed size.
        is_changed: whether the model writes over the low-res map later.
        note: what to know about it.
        swapped: what stands in its place, or "".
    """

    name: str
    path: str
    ordinal: int
    caller: str | None
    turn: int
    function: str
    mode: str
    low: Size
    size: Size
    channels: int
    out_channels: int
    dtype: torch.dtype
    device: torch.device
    guides: tuple[Guide, ...] = ()
    between: tuple[Guide, ...] = ()
    is_pooled: bool = False
    is_changed: bool = False
    note: str = ""
    swapped: str = field(default="", compare=False)

    @property
    def operator(self) -> str:
        return f"{self.function} {self.mode}".strip()

    @property
    def scale(self) -> Size:
        """How many times larger the result is, rounded."""
        return round(self.size[0] / self.low[0]), round(self.size[1] / self.low[1])


class Sites(list[Site]):
    """The sites of a model in the order in which they run."""

    def table(self, title: str = "") -> Table:
        is_swap = any(site.swapped for site in self)
        rows: list[tuple[Cell, ...]] = []
        for site in self:
            channels = str(site.channels)
            if site.out_channels != site.channels:
                channels += f" to {site.out_channels}"
            guide = str(site.guides[0]) if site.guides else "none"
            between = ", ".join(map(str, site.between))
            sizes = f"{site.low[0]}x{site.low[1]}", f"{site.size[0]}x{site.size[1]}"
            row = (site.name, site.operator, *sizes, channels, guide, between, site.note)
            rows.append((*row, site.swapped or "kept") if is_swap else row)
        return Table(title, (*COLUMNS, "swapped for") if is_swap else COLUMNS, rows)

    def __str__(self) -> str:
        if not self:
            return "On this example the model makes no map [B, C, h, w] larger."
        table = self.table()
        lines = [table.columns, *([table.text(cell) for cell in row] for row in table.rows)]
        widths = [max(len(line[i]) for line in lines) for i in range(len(table.columns))]
        return "\n".join(
            "  ".join(cell.ljust(n) for cell, n in zip(line, widths, strict=True)).rstrip() for line in lines
        )
