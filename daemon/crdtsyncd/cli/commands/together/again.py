"""``--watch``: print a list again when it changes."""

from __future__ import annotations

from collections.abc import Callable
from time import sleep
from typing import TypeVar

import click
from crdtsyncd.cli.show import output
from crdtsyncd.cli.show.streams import end_with_reader

T = TypeVar("T")

LOOK_S = 0.5
watch_option = click.option(
    "--watch", "is_watching", is_flag=True, help="Print it again when it changes, until Ctrl-C."
)


def show_again(read: Callable[[], T], show: Callable[[T], object], *, is_watching: bool) -> None:
    """Show what ``read`` returns, once, or each time that it is another."""
    if not is_watching:
        show(read())
        return
    end_with_reader()
    before: T | None = None
    while True:
        found = read()
        if found != before:
            show(found)
            output.flush()
        before = found
        sleep(LOOK_S)
