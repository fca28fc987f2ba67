"""Tables: by rich on a terminal, which folds them to its width; aligned text elsewhere, where nothing may be cut."""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from crdtsyncd import terminal
from crdtsyncd.cli.show import output

from crdtsync.visible import in_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from crdtsyncd.cli.command import Settings

    Cells = Sequence[Sequence[str]]

GAP = "  "
FOLDED_WIDTH_MIN = 16
ALIGNED_WIDTH_MAX = 60
"""Without a terminal, cells of a column that folds are aligned up to here: one long one does not widen all."""


@dataclass(frozen=True, slots=True)
class Column:
    """A heading, and how to get its cell from a row; else it is the field of that name, or nothing for None.

    A column that folds holds sentences or addresses.
    ``spare``: on a terminal too narrow for all columns, those with the highest number are left out first; 0: never.
    """

    title: str
    cell: Callable[[Mapping[str, Any]], str] | None = None  # Any: an object of the daemon's status
    is_number: bool = False
    folds: bool = False
    spare: int = 0

    def text(self, row: Mapping[str, Any]) -> str:
        """The cell of a row."""
        if self.cell is not None:
            return self.cell(row)
        held = row[self.title.lower()]
        return "" if held is None else str(held)


def show_rows(
    settings: Settings, columns: Sequence[Column], rows: Iterable[Mapping[str, Any]], nothing: str = ""
) -> None:
    """Print what a command lists: with ``--json`` an object a line, else as a table; if there is none, ``nothing``."""
    if settings.json:
        for row in rows:
            output.line(output.record(row))
    elif found := list(rows):
        show_table(columns, found)
    elif nothing:
        output.line(nothing)


def show_table(columns: Sequence[Column], rows: Iterable[Mapping[str, Any]]) -> None:
    """Print a table; a column without any content is left out."""
    cells = [[in_line(column.text(row)) for column in columns] for row in rows]
    used = [n for n in range(len(columns)) if any(row[n] for row in cells)]
    shown, kept = _chosen(columns, cells, used)
    if not sys.stdout.isatty():
        _print_plain(shown, kept)
        return
    width = shutil.get_terminal_size().columns
    fitting = _without_spare(columns, cells, used, width)
    if fitting is not None:
        _print_rich(*fitting)
    else:
        _print_blocks(shown, kept)


def _chosen(columns: Sequence[Column], cells: Cells, used: Sequence[int]) -> tuple[list[Column], list[list[str]]]:
    return [columns[n] for n in used], [[row[n] for n in used] for row in cells]


def _without_spare(
    columns: Sequence[Column], cells: Cells, used: Sequence[int], width: int
) -> tuple[list[Column], list[list[str]]] | None:
    """As many columns as fit; None: even those that must be there do not."""
    for most in sorted({0, *(columns[n].spare for n in used)}, reverse=True):
        chosen = _chosen(columns, cells, [n for n in used if columns[n].spare <= most])
        if _width_min(*chosen) <= width:
            return chosen
    return None


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
    terminal.console().print(table)
