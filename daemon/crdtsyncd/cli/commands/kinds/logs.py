"""``append``, ``log``, ``trim`` and ``remove``: keys of kind log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from crdtsyncd.cli.command import Settings, state_command
from crdtsyncd.cli.connect import connect, past
from crdtsyncd.cli.data import json_values
from crdtsyncd.cli.errors import absent
from crdtsyncd.cli.params import TEXT, TTL
from crdtsyncd.cli.shared_options import (
    at_option,
    concern_option,
    condition_option,
    confidence_option,
    fields_of,
    if_absent_option,
    if_version_option,
    key_argument,
    string_option,
    value_argument,
    value_of,
)
from crdtsyncd.cli.show import output
from crdtsyncd.cli.show.follow import LogFollower, log_pages
from crdtsyncd.cli.show.streams import end_with_reader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from crdtsync.client import Client, LogItem, Session
    from crdtsync.client.values.points import Point

    Show = Callable[[LogItem], None]


@state_command("append")
@key_argument
@value_argument
@string_option
@click.option("--ttl", metavar="DURATION", type=TTL, help="Forget this element after this time, such as 30s or 7d.")
@if_version_option
@if_absent_option
@confidence_option
@click.option("--meta", metavar="JSON", type=TEXT, help="An object to keep beside the element.")
@concern_option
def append(
    settings: Settings,
    key: str,
    value: str,
    as_string: bool,
    meta: str | None,
    **options: Any,
) -> None:
    """Append a value to a log, and print its new length.

    VALUE is JSON; "-" reads it from stdin. Elements that were appended on several hosts at once are all kept.

    \b
    Example:
      crdtsync append findings '{"file": "main.c", "line": 12}'
    """
    content = value_of(value, as_string=as_string)
    with connect(settings) as client:
        said = None if meta is None else fields_of(meta, "--meta")
        length = client.append(key, content, meta=said, **options)
        output.result(settings, str(length), {"length": length, "token": client.last_token})


@state_command("log")
@key_argument
@click.option("-n", "count", metavar="N", type=click.IntRange(0), help="Only the last N elements.")
@click.option("-f", "--follow", is_flag=True, help="Then print new elements as they come, until Ctrl-C.")
@at_option
def log(settings: Settings, key: str, count: int | None, follow: bool, at: Point | None) -> None:
    """Print the elements of a log, and with -f what comes.

    Oldest first, one JSON value a line. With --json each line is an object with the element's author, time and dot.
    With -f the log need not exist yet.

    \b
    Example:
      crdtsync log findings -n 20 -f
    """
    if follow and at is not None:
        raise click.UsageError("nothing more comes of the past: leave out --follow or --at.")
    show = _show_object if settings.json else _show_value
    with connect(settings) as client:
        if follow:
            _follow(client, key, count, show)
            return
        found = False
        for item in _items(past(client, at), key, count):
            show(item)
            found = True
        if not found and count != 0:
            raise absent(f"{key!r} does not exist")


@state_command("trim")
@key_argument
@click.option("--keep", metavar="N", required=True, type=click.IntRange(0), help="How many elements to keep.")
@condition_option
def trim(settings: Settings, key: str, keep: int, **conditions: Any) -> None:
    """Remove all but the newest elements of a log.

    Prints how many were removed.

    \b
    Example:
      crdtsync trim findings --keep 100
    """
    with connect(settings) as client:
        removed = client.trim(key, keep, **conditions)
        output.result(settings, str(removed), {"removed": removed, "token": client.last_token})


@state_command("remove")
@key_argument
@click.argument("dot", type=TEXT)
@condition_option
def remove(settings: Settings, key: str, dot: str, **conditions: Any) -> None:
    """Remove one element of a log, and print the token.

    DOT names the element, as `log --json` shows it; the others stay. If it is gone already, the exit status is 1.

    \b
    Example:
      crdtsync remove findings 17612345.4.0
    """
    with connect(settings) as client:
        if not client.remove(key, dot, **conditions):
            raise absent(f"{key!r} has no element {dot}")
        output.result(settings, client.last_token or "", {"token": client.last_token})


def _show_value(item: LogItem) -> None:
    output.line(json_values.dumps(item.value))


def _show_object(item: LogItem) -> None:
    record = {name: getattr(item, name) for name in ("value", "agent", "node", "time", "dot")}
    said = {name: getattr(item, name) for name in ("confidence", "meta", "ttl")}
    output.line(output.record({**record, **{name: value for name, value in said.items() if value is not None}}))


def _items(client: Session, key: str, count: int | None) -> Iterator[LogItem]:
    if count is None:
        for page in log_pages(client, key):
            yield from page
    elif count:
        yield from client.log_items(key, last=count)


def _follow(client: Client, key: str, count: int | None, show: Show) -> None:
    end_with_reader()
    for page in LogFollower(client, key).pages(count):
        for item in page:
            show(item)
        output.flush()
