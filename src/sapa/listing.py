"""The table of all upsamplers, for `sapa list`, the README and the documentation."""

from sapa.complexity import example_of, multiply_accumulates, on_paper, parameters
from sapa.nn import UPSAMPLERS
from sapa.nn.catalogue import CATALOGUE
from sapa.tables import Cell, Table

CHANNELS = 256
SIDE = 64
COLUMNS = ("name", "paper", "year", "guide", "any size", "parameters", "MACs per point", "when to use it")


def listing() -> Table:
    """Parameters and multiply-accumulates for each low-res point at 256 channels and scale 2."""
    rows: list[tuple[Cell, ...]] = []
    for name in UPSAMPLERS:
        up, entry = on_paper(name, CHANNELS), CATALOGUE[name]
        macs = round(multiply_accumulates(up, *example_of(up, SIDE, "meta")) / SIDE**2)
        rows.append((name, entry.paper, entry.year, up.needs_guide, up.any_size, parameters(up), macs, entry.use))
    return Table(f"The upsamplers, at C = {CHANNELS}", COLUMNS, rows)
