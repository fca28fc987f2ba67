"""``top``: what goes on at this node, live."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import click
from crdtsyncd import terminal
from crdtsyncd.cli.command import Settings, state_command
from crdtsyncd.cli.connect import connect
from crdtsyncd.cli.params import DURATION
from crdtsyncd.cli.show import output

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crdtsyncd.top.hot_keys import HotKeys
    from crdtsyncd.top.sample import Frame

    from crdtsync.client import Client

CONFLICTS_MAX = 50


@state_command("top")
@click.option("--interval", metavar="DURATION", type=DURATION, default="1s", help="Time between two looks; 1s.")
@click.option("-n", "looks", metavar="N", type=click.IntRange(1), help="End after N looks.")
def top(settings: Settings, interval: float, looks: int | None) -> None:
    """Show live what goes on: rates, lag, busy keys, conflicts.

    Keys are those of the space of --space; what they count is writes, of all nodes. On a terminal until q is
    pressed. With --json, or where nobody looks, an object or a page for each look, one if -n does not say otherwise.

    \b
    Examples:
      crdtsync top
      crdtsync top --json -n 10
    """
    from crdtsyncd.top.hot_keys import HotKeys

    with connect(settings) as client:
        hot = HotKeys(client)
        try:
            if sys.stdout.isatty() and not settings.json:
                _live(client, hot, interval, looks)
            else:
                _print(settings, client, hot, interval, looks or 1)
        finally:
            hot.close()


def _frames(client: Client, hot: HotKeys) -> Iterator[Frame]:
    from crdtsyncd.top.sample import Frame, hottest, rates

    from crdtsync.errors import NotAllowed

    before, before_s = None, time.monotonic()
    while True:
        status = client.status()
        if status.get("limited"):
            raise NotAllowed("this agent may not read everything here, so what the node does is not shown to it")
        now_s = time.monotonic()
        elapsed_s = now_s - before_s
        found = client.conflicts(limit=CONFLICTS_MAX)
        conflicts = [(entry.key, 1 + len(entry.siblings)) for entry in found]
        yield Frame(status, rates(before, status, elapsed_s), hottest(hot.take(), elapsed_s), conflicts)
        before, before_s = status, now_s


def _live(client: Client, hot: HotKeys, interval_s: float, looks: int | None) -> None:
    from crdtsyncd.top.keyboard import Keyboard
    from crdtsyncd.top.screen import draw
    from rich.live import Live

    console = terminal.console(highlight=False)
    with Keyboard() as keyboard, Live(console=console, screen=True, auto_refresh=False) as live:
        for number, frame in enumerate(_frames(client, hot), 1):
            live.update(draw(frame, *console.size, hint="q quits"), refresh=True)
            if looks == number or keyboard.wait(interval_s) in ("q", "Q"):
                return


def _print(settings: Settings, client: Client, hot: HotKeys, interval_s: float, looks: int) -> None:
    """The first look only measures: rates need two."""
    frames = _frames(client, hot)
    next(frames)
    for _ in range(looks):
        time.sleep(interval_s)
        frame = next(frames)
        if settings.json:
            output.line(output.record(frame.described()))
        else:
            _page(frame)
        output.flush()


def _page(frame: Frame) -> None:
    from crdtsyncd.top.screen import draw

    output.flush()
    console = terminal.console(highlight=False)
    console.print(draw(frame, console.width, 60))
