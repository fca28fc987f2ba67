"""``add``, ``discard`` and ``members``: keys of kind set."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from crdtsyncd.cli.command import Settings, state_command
from crdtsyncd.cli.connect import connect
from crdtsyncd.cli.data import json_values
from crdtsyncd.cli.errors import absent
from crdtsyncd.cli.shared_options import (
    condition_option,
    conditions_option,
    key_argument,
    string_option,
    value_argument,
    value_of,
)
from crdtsyncd.cli.show import output

if TYPE_CHECKING:
    from crdtsync.client import Member


@state_command("add")
@key_argument
@value_argument
@string_option
@conditions_option
def add(settings: Settings, key: str, value: str, as_string: bool, **conditions: Any) -> None:
    """Add a value to a set, and print the token.

    VALUE is JSON; "-" reads it from stdin. A value that is in the set already stays in it. Where one host adds a value
    and another discards it at the same time, it stays.

    \b
    Example:
      crdtsync add tags --string urgent
    """
    content = value_of(value, as_string=as_string)
    with connect(settings) as client:
        added = client.add(key, content, **conditions)
        output.result(settings, client.last_token or "", {"added": added, "token": client.last_token})


@state_command("discard")
@key_argument
@value_argument
@string_option
@condition_option
def discard(settings: Settings, key: str, value: str, as_string: bool, **conditions: Any) -> None:
    """Remove a value from a set, and print the token.

    VALUE is JSON; "-" reads it from stdin. If it is not in the set, the exit status is 1.

    \b
    Example:
      crdtsync discard tags --string urgent
    """
    content = value_of(value, as_string=as_string)
    with connect(settings) as client:
        existed = client.discard(key, content, **conditions)
        if not existed:
            shown = json_values.dumps(content)
            raise absent(f"{shown if len(shown) <= 40 else f'{shown[:37]}...'} is not in {key!r}")
        output.result(settings, client.last_token or "", {"existed": existed, "token": client.last_token})


@state_command("members")
@key_argument
@click.option("-n", "count", metavar="N", type=click.IntRange(0), help="Only the first N elements.")
def members(settings: Settings, key: str, count: int | None) -> None:
    """Print the elements of a set, one JSON value a line.

    In the order in which they were added. With --json each line is an object with who added the element, and when.

    \b
    Example:
      crdtsync members tags
    """
    show = _show_object if settings.json else _show_value
    with connect(settings) as client:
        found = client.member_items(key, limit=count)
    for member in found:
        show(member)
    if not found and count != 0:
        raise absent(f"{key!r} does not exist")


def _show_value(member: Member) -> None:
    output.line(json_values.dumps(member.value))


def _show_object(member: Member) -> None:
    output.line(output.record({name: getattr(member, name) for name in ("value", "agent", "node", "time")}))
