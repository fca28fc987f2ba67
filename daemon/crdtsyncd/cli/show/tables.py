"""Tables: by rich on a terminal, which folds them to its width; aligned text elsewhere, where nothing may be cut."""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from crdtsyncd.cli.show import output

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    Cells = Sequence[Sequence[str]]

GAP = "  "
FOLDED_WIDTH_MIN = 16
ALIGNED_WIDTH_MAX = 60
"""Without a terminal, cells of a column that folds are aligned up to here: one long one does not widen all."""


@dataclass(frozen=True, slots=True)
class Column:
    """A heading, and how to get its cell from a row. A column that folds holds sentences or addresses."""

    title: str
    cell: Callable[[Mapping[str, Any]], str]  # Any: an object of the daemon's status
    is_number: bool = False
    folds: bool = False


def show_table(columns: Sequence[Column], rows: Iterable[Mapping[str, Any]]) -> None:
    """Print a table; a column without any content is left out."""
    cells = [[_one_line(column.cell(row)) for column in columns] for row in rows]
    used = [n for n in range(len(columns)) if any(row[n] for row in cells)]
    shown = [columns[n] for n in used]
    kept = [[row[n] for n in used] for row in cells]
    if not sys.stdout.isatty():
        _print_plain(shown, kept)
    elif _width_min(shown, kept) <= shutil.get_terminal_size().columns:
        _print_rich(shown, kept)
    else:
        _print_blocks(shown, kept)


def _one_line(text: str) -> str:
    """Cells hold names and messages of other hosts: no line ends and no control characters."""
    return "".join(character if character.isprintable() else " " for character in text)


def _widths(columns: Sequence[Column], rows: Cells) -> list[int]:
    titles = [column.title for column in columns]
    return [max(map(len, cells)) for cells in zip(titles, *rows, strict=True)]


def _width_min(columns: Sequence[Column], rows: Cells) -> int:
    """The narrowest terminal that a table is still readable on."""
    widths = zip(columns, _widths(columns, rows), strict=True)
    return sum(len(GAP) + (min(width, FOLDED_WIDTH_MIN) if column.folds else width) for column, width in widths)


def _print_plain(columns: Sequence[Column], rows: Cells) -> None:
    found = zip(columns, _widths(columns, rows), strict=True)
    widths = [min(width, ALIGNED_WIDTH_MAX) if column.folds else width for column, width in found]
    for row in ([column.title for column in columns], *rows):
        cells = [
            cell.rjust(width) if column.is_number else cell.ljust(width)
            for column, cell, width in zip(columns, row, widths, strict=True)
        ]
        output.line(GAP.join(cells).rstrip())


def _print_blocks(columns: Sequence[Column], rows: Cells) -> None:
    """For a terminal too narrow for the table: a line for each cell, a block for each row."""
    width = max(len(column.title) for column in columns)
    for row in rows:
        for column, cell in zip(columns, row, strict=True):
            if cell:
                output.line(f"{column.title.ljust(width)}{GAP}{cell}")
        if row is not rows[-1]:
            output.line("")


def _print_rich(columns: Sequence[Column], rows: Cells) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    output.flush()
    table = Table(box=None, pad_edge=False, padding=(0, len(GAP), 0, 0), header_style="bold")
    for column in columns:
        table.add_column(
            column.title,
            justify="right" if column.is_number else "left",
            overflow="fold",
            no_wrap=not column.folds,
        )
    for row in rows:
        table.add_row(*[Text(cell) for cell in row])
    Console().print(table)
