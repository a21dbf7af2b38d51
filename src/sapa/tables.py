"""A table and its four ways out: terminal, Markdown, CSV and JSON."""

import csv
import io
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table as RichTable

Cell = str | int | float | None


@dataclass(frozen=True)
class Table:
    """Rows under named columns; `decimals` are those a reader sees, while CSV and JSON have all."""

    title: str
    columns: tuple[str, ...]
    rows: list[tuple[Cell, ...]]
    decimals: int = 2

    def text(self, cell: Cell) -> str:
        if cell is None:
            return ""
        if isinstance(cell, bool):
            return "yes" if cell else "no"
        if isinstance(cell, int):
            return f"{cell:,}" if cell >= 10_000 else str(cell)  # a year has no comma
        return f"{cell:,.{self.decimals}f}" if isinstance(cell, float) else cell

    def select(self, *columns: str) -> "Table":
        """The same with these columns alone."""
        places = [self.columns.index(name) for name in columns]
        return Table(self.title, columns, [tuple(row[i] for i in places) for row in self.rows], self.decimals)


def markdown(table: Table) -> str:
    lines = [table.columns, ["---"] * len(table.columns), *([table.text(cell) for cell in row] for row in table.rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def as_csv(tables: list[Table]) -> str:
    """One after the other, with an empty line between."""
    texts = []
    for table in tables:
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([table.columns, *table.rows])
        texts.append(text.getvalue())
    return "\n".join(texts)


def as_json(tables: list[Table]) -> str:
    """The rows of one table, or those of several by their titles."""
    found = {table.title: [dict(zip(table.columns, row, strict=True)) for row in table.rows] for table in tables}
    return json.dumps(found if len(found) > 1 else next(iter(found.values())), indent=1, ensure_ascii=False) + "\n"


def as_markdown(tables: list[Table]) -> str:
    if len(tables) == 1:
        return markdown(tables[0])
    return "\n".join(f"### {table.title}\n\n{markdown(table)}" for table in tables)


def rich(table: Table) -> "RichTable":
    from rich.table import Table as RichTable
    from rich.text import Text

    drawn = RichTable(title=table.title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for i, name in enumerate(table.columns):
        is_number = all(isinstance(row[i], int | float) and not isinstance(row[i], bool) for row in table.rows)
        longest = max(len(table.text(row[i])) for row in table.rows)
        # where the terminal is narrow, texts wrap but names and numbers do not
        least = longest if i == 0 or is_number else None
        drawn.add_column(name, justify="right" if is_number else "left", min_width=least)
    for row in table.rows:
        drawn.add_row(*(Text(table.text(cell)) for cell in row))
    return drawn
