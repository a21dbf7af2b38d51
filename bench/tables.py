"""Write the tables of README, docs/upsamplers.md and docs/paper.md from the upsamplers: `python -m bench.tables`."""

import re
from collections.abc import Callable
from pathlib import Path

from sapa import UPSAMPLERS
from sapa.listing import listing
from sapa.paper_tables import sentence, table_1, tables_2_to_5
from sapa.tables import Table, markdown

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "docs" / "upsamplers.md", ROOT / "docs" / "paper.md"]
SHORT = ("name", "when to use it", "guide", "parameters", "MACs per point")

TABLES: dict[str, Callable[[], Table]] = {
    "upsamplers": lambda: named(listing().select(*SHORT)),
    "upsamplers in full": lambda: named(listing()),
    "pictures": lambda: gallery(),
    "table 1": table_1,
    "sentence": sentence,
    "tables 2 to 5": tables_2_to_5,
}


def named(table: Table) -> Table:
    """Names as code, which is what they are typed as."""
    return Table(table.title, table.columns, [(f"`{name}`", *row) for name, *row in table.rows], table.decimals)


def gallery(width: int = 3) -> Table:
    """The pictures of `bench.pictures`, the inputs first."""
    cells = ["![the photograph and x](img/upsamplers/input.png)<br>the photograph, and x"]
    cells += [f"![{name}](img/upsamplers/{name}.png)<br>`{name}`" for name in UPSAMPLERS]
    cells += [""] * (-len(cells) % width)
    return Table("pictures", ("",) * width, [tuple(cells[i : i + width]) for i in range(0, len(cells), width)])


def written(path: Path) -> str:
    """The page as it should be: what stands between <!-- name --> and <!-- /name --> is that table."""

    def fill(match: re.Match[str]) -> str:
        begin, name, end = match.groups()
        return f"{begin}\n{markdown(TABLES[name]())}{end}"

    names = "|".join(TABLES)
    return re.sub(rf"(<!-- ({names}) -->)\n.*?(<!-- /\2 -->)", fill, path.read_text(), flags=re.DOTALL)


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(written(page))
