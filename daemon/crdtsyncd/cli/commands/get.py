"""``get``: the value of a key, or everything that is known of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from crdtsyncd.cli import output, values
from crdtsyncd.cli.arguments import after_option, key_argument
from crdtsyncd.cli.command import Settings, pass_settings, state_command
from crdtsyncd.cli.failures import absent
from crdtsyncd.cli.session import connect

if TYPE_CHECKING:
    from crdtsync.client import Entry


@state_command("get")
@key_argument
@click.option("--raw", is_flag=True, help="Print a string without quotes, and bytes as they are.")
@click.option("--siblings", "all_values", is_flag=True, help="Print the winner and its siblings, one a line.")
@after_option
@pass_settings
def get(settings: Settings, key: str, raw: bool, all_values: bool, after: str | None) -> None:
    """Print the value of a key as JSON.

    It is on one line. Values that were written at the same time, none having seen the other, are siblings: the
    winner is printed, and a warning if there are others. With --json the whole entry is printed: value, kind,
    version, author, siblings. Write with --seen and that version to replace them all.

    \b
    Examples:
      crdtsync get plan/goal
      crdtsync get plan/goal --json
    """
    if raw and (settings.json or all_values):
        raise click.UsageError("--raw prints one value as it is: leave out --json and --siblings.")
    with connect(settings) as client:
        entry = client.entry(key, after=after)
    if entry is None:
        raise absent(f"{key!r} does not exist")
    if settings.json:
        output.line(output.record(output.entry_fields(entry)))
    elif all_values:
        for one in (entry, *entry.siblings):
            output.line(values.dumps(output.shown_value(one)))
    else:
        _print_winner(entry, raw=raw)


def _print_winner(entry: Entry, *, raw: bool) -> None:
    if raw and isinstance(entry.value, str | bytes):
        output.raw(entry.value if isinstance(entry.value, bytes) else entry.value.encode())
    else:
        output.line(values.dumps(entry.value))
    others = len(entry.siblings)
    if others:
        what = "another value was" if others == 1 else f"{others} other values were"
        output.warning(f"{what} written to {entry.key!r} at the same time; see them with --siblings")
