"""``append``, ``log`` and ``trim``: keys of kind log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from crdtsyncd.cli.command import Settings, pass_settings, state_command
from crdtsyncd.cli.connect import connect
from crdtsyncd.cli.data import json_values
from crdtsyncd.cli.errors import absent
from crdtsyncd.cli.params import WriteConcernValue
from crdtsyncd.cli.shared_options import (
    check_conditions,
    concern_option,
    if_absent_option,
    if_version_option,
    key_argument,
    string_option,
    value_argument,
    value_of,
)
from crdtsyncd.cli.show import output
from crdtsyncd.cli.show.follow import Follower, log_pages
from crdtsyncd.cli.show.streams import end_with_reader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from crdtsync.client import Client, LogItem

    Show = Callable[[LogItem], None]


@state_command("append")
@key_argument
@value_argument
@string_option
@if_version_option
@if_absent_option
@concern_option
@pass_settings
def append(
    settings: Settings,
    key: str,
    value: str,
    as_string: bool,
    if_version: str | None,
    if_absent: bool,
    w: WriteConcernValue | None,
) -> None:
    """Append a value to a log, and print its new length.

    VALUE is JSON; "-" reads it from stdin. Elements that were appended on several hosts at once are all kept.

    \b
    Example:
      crdtsync append findings '{"file": "main.c", "line": 12}'
    """
    check_conditions(if_version, if_absent)
    content = value_of(value, as_string=as_string)
    with connect(settings) as client:
        length = client.append(key, content, if_version=if_version, if_absent=if_absent, w=w)
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
@if_version_option
@concern_option
@pass_settings
def trim(settings: Settings, key: str, keep: int, if_version: str | None, w: WriteConcernValue | None) -> None:
    """Remove all but the newest elements of a log.

    Prints how many were removed.

    \b
    Example:
      crdtsync trim findings --keep 100
    """
    with connect(settings) as client:
        removed = client.trim(key, keep, if_version=if_version, w=w)
        output.result(settings, str(removed), {"removed": removed, "token": client.last_token})


def _show_value(item: LogItem) -> None:
    output.line(json_values.dumps(item.value))


def _show_object(item: LogItem) -> None:
    output.line(output.record({name: getattr(item, name) for name in ("value", "agent", "node", "time")}))


def _items(client: Client, key: str, count: int | None) -> Iterator[LogItem]:
    if count is None:
        for page in log_pages(client, key):
            yield from page
    elif count:
        yield from client.log_items(key, last=count)


def _follow(client: Client, key: str, count: int | None, show: Show) -> None:
    end_with_reader()
    for page in Follower(client, key).pages(count):
        for item in page:
            show(item)
        output.flush()
