"""How far a replay is: a bar on a terminal, a line every few seconds elsewhere."""

from __future__ import annotations

import asyncio
import sys
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.replay import Replay

_BAR_STEP_S = 0.1
_LINE_STEP_S = 5.0


@contextmanager
def shown_progress(replay: Replay, *, quiet: bool) -> Iterator[None]:
    """Show it on stderr while the block runs."""
    if quiet:
        yield
        return
    task = asyncio.get_running_loop().create_task(_bar(replay) if sys.stderr.isatty() else _lines(replay))
    try:
        yield
    finally:
        task.cancel()


async def _bar(replay: Replay) -> None:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), auto_refresh=False) as progress:
        bar = progress.add_task(replay.trace.name, total=len(replay.trace.transactions))
        while True:
            progress.update(bar, completed=replay.acknowledged, refresh=True)
            await asyncio.sleep(_BAR_STEP_S)


async def _lines(replay: Replay) -> None:
    start_s, total = monotonic(), len(replay.trace.transactions)
    while True:
        await asyncio.sleep(_LINE_STEP_S)
        line = f"{replay.trace.name}: {replay.acknowledged:,} of {total:,} after {monotonic() - start_s:.0f} s"
        print(line, file=sys.stderr, flush=True)
