"""``append``, ``log`` and ``trim``: keys of kind log."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import click
from crdtsyncd.cli import output, values
from crdtsyncd.cli.arguments import concern_option, key_argument, string_option, value_argument, value_of
from crdtsyncd.cli.command import Settings, pass_settings, state_command
from crdtsyncd.cli.failures import absent
from crdtsyncd.cli.params import WriteConcernValue
from crdtsyncd.cli.session import connect
from crdtsyncd.cli.streams import end_with_reader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from datetime import datetime

    from crdtsync.client import Client, Event, LogItem

    Show = Callable[[LogItem | Event], None]

_PAGE_ITEMS = 1000


@state_command("append")
@key_argument
@value_argument
@string_option
@concern_option
@pass_settings
def append(settings: Settings, key: str, value: str, as_string: bool, w: WriteConcernValue | None) -> None:
    """Append a value to a log, and print its new length.

    VALUE is JSON; "-" reads it from stdin. Elements that were appended on several hosts at once are all kept.

    \b
    Example:
      crdtsync append findings '{"file": "main.c", "line": 12}'
    """
    content = value_of(value, as_string=as_string)
    with connect(settings) as client:
        length = client.append(key, content, w=w)
        output.result(settings, str(length), {"length": length, "token": client.last_token})


@state_command("log")
@key_argument
@click.option("-n", "count", metavar="N", type=click.IntRange(0), help="Only the last N elements.")
@click.option("-f", "--follow", is_flag=True, help="Then print new elements as they come, until Ctrl-C.")
@pass_settings
def log(settings: Settings, key: str, count: int | None, follow: bool) -> None:
    """Print the elements of a log, and with -f what comes.

    Oldest first, one JSON value a line. With --json each line is an object with the element's author and time.
    With -f the log need not exist yet.

    \b
    Example:
      crdtsync log findings -n 20 -f
    """
    show = _show_object if settings.json else _show_value
    with connect(settings) as client:
        if follow:
            _follow(client, key, count, show)
            return
        found = False
        for item in _items(client, key, count):
            show(item)
            found = True
        if not found and count != 0:
            raise absent(f"{key!r} does not exist")


@state_command("trim")
@key_argument
@click.option("--keep", metavar="N", required=True, type=click.IntRange(0), help="How many elements to keep.")
@concern_option
@pass_settings
def trim(settings: Settings, key: str, keep: int, w: WriteConcernValue | None) -> None:
    """Remove all but the newest elements of a log.

    Prints how many were removed.

    \b
    Example:
      crdtsync trim findings --keep 100
    """
    with connect(settings) as client:
        removed = client.trim(key, keep, w=w)
        output.result(settings, str(removed), {"removed": removed, "token": client.last_token})


def _show_value(item: LogItem | Event) -> None:
    output.line(values.dumps(item.value))


def _show_object(item: LogItem | Event) -> None:
    output.line(output.record({name: getattr(item, name) for name in ("value", "agent", "node", "time")}))


def _items(client: Client, key: str, count: int | None) -> Iterator[LogItem]:
    """The last ``count`` elements, or all, page by page, so that the first are out before the last are read."""
    if count is not None:
        if count:
            yield from client.log_items(key, last=count)
        return
    start = 0
    while True:
        page = client.log_items(key, start=start, limit=_PAGE_ITEMS)
        yield from page
        if len(page) < _PAGE_ITEMS:
            return
        start = page[-1].index + 1


def _follow(client: Client, key: str, count: int | None, show: Show) -> None:
    """Print what is there, then what comes.

    The watch begins first, so nothing falls between the two; what it then repeats of the reading is left out.
    """
    end_with_reader()
    with client.watch(key) as events:
        for event in events:
            if event.event == "snapshot" and event.key is None:
                break
        repeated = Counter(_identity(item) for item in _shown(_items(client, key, count), show))
        for event in _flat(events):
            if event.event in ("lagged", "reset"):
                output.warning(f"elements came faster than they could be printed; see crdtsync log {key} for all")
            if event.key != key or event.op != "append":
                continue
            identity = _identity(event)
            if repeated[identity] > 0:
                repeated[identity] -= 1
            else:
                show(event)
                output.flush()


def _shown(items: Iterable[LogItem], show: Show) -> Iterator[LogItem]:
    for item in items:
        show(item)
        yield item
    output.flush()


def _flat(events: Iterable[Event]) -> Iterator[Event]:
    for event in events:
        yield from event.events if event.event == "batch" else (event,)


def _identity(item: LogItem | Event) -> tuple[str | None, str | None, datetime | None, str]:
    """What a reading and an event of one element have in common; equal ones are told apart by counting."""
    return item.agent, item.node, item.time, values.dumps(item.value)
