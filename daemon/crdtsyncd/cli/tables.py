"""Tables: by rich on a terminal, which fits them to its width; aligned text elsewhere, where nothing may be cut."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from crdtsyncd.cli import output

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence


@dataclass(frozen=True, slots=True)
class Column:
    """A heading, and how to get its cell from a row."""

    title: str
    cell: Callable[[Mapping[str, Any]], str]  # Any: an object of the daemon's status
    is_number: bool = False


def show_table(columns: Sequence[Column], rows: Iterable[Mapping[str, Any]]) -> None:
    """Print a table; a column without any content is left out."""
    cells = [[_one_line(column.cell(row)) for column in columns] for row in rows]
    used = [n for n in range(len(columns)) if any(row[n] for row in cells)]
    shown = [columns[n] for n in used]
    kept = [[row[n] for n in used] for row in cells]
    if sys.stdout.isatty():
        _print_rich(shown, kept)
    else:
        _print_plain(shown, kept)


def _one_line(text: str) -> str:
    """Cells hold names and messages of other hosts: no line ends and no control characters."""
    return "".join(character if character.isprintable() else " " for character in text)


def _print_plain(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    titles = [column.title for column in columns]
    widths = [max(map(len, cells)) for cells in zip(titles, *rows, strict=True)]
    for row in (titles, *rows):
        cells = [
            cell.rjust(width) if column.is_number else cell.ljust(width)
            for column, cell, width in zip(columns, row, widths, strict=True)
        ]
        output.line("  ".join(cells).rstrip())


def _print_rich(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    output.flush()
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in columns:
        table.add_column(column.title, justify="right" if column.is_number else "left", overflow="fold")
    for row in rows:
        table.add_row(*[Text(cell) for cell in row])
    Console().print(table)
