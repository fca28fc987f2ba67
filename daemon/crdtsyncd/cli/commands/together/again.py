"""``--watch``: print a list again when it changes."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic, sleep
from typing import TypeVar

import click
from crdtsyncd.cli.show import output
from crdtsyncd.cli.show.streams import end_with_reader

T = TypeVar("T")

LOOK_S = 0.5
watch_option = click.option(
    "--watch", "is_watching", is_flag=True, help="Print it again when it changes, until Ctrl-C."
)


def show_again(
    read: Callable[[], T], show: Callable[[T], object], *, is_watching: bool, remind_s: float | None = None
) -> None:
    """Show what ``read`` returns, once, or each time that it is another; and each ``remind_s`` if there is anything."""
    if not is_watching:
        show(read())
        return
    end_with_reader()
    before: T | None = None
    shown_s = 0.0
    while True:
        found = read()
        is_due = remind_s is not None and found and monotonic() - shown_s >= remind_s
        if found != before or is_due:
            show(found)
            output.flush()
            shown_s = monotonic()
        before = found
        sleep(LOOK_S)
