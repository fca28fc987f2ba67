"""How far a benchmark is: a bar on a terminal, a line every few seconds elsewhere."""

from __future__ import annotations

import asyncio
import sys
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_BAR_STEP_S = 0.1
_LINE_STEP_S = 5.0


@contextmanager
def shown_progress(title: str, total: int, done: Callable[[], int], *, quiet: bool) -> Iterator[None]:
    """Show on stderr while the block runs how much of ``total`` is ``done``."""
    if quiet:
        yield
        return
    show = _bar if sys.stderr.isatty() else _lines
    task = asyncio.get_running_loop().create_task(show(title, total, done))
    try:
        yield
    finally:
        task.cancel()


async def _bar(title: str, total: int, done: Callable[[], int]) -> None:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), auto_refresh=False) as progress:
        bar = progress.add_task(title, total=total)
        while True:
            progress.update(bar, completed=done(), refresh=True)
            await asyncio.sleep(_BAR_STEP_S)


async def _lines(title: str, total: int, done: Callable[[], int]) -> None:
    start_s = monotonic()
    while True:
        await asyncio.sleep(_LINE_STEP_S)
        line = f"{title}: {done():,} of {total:,} after {monotonic() - start_s:.0f} s"
        print(line, file=sys.stderr, flush=True)
