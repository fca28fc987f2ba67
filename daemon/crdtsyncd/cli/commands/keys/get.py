"""``get``: the value of a key, or everything that is known of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from crdtsyncd.cli.command import Settings, state_command
from crdtsyncd.cli.connect import connect, past
from crdtsyncd.cli.data import json_values
from crdtsyncd.cli.errors import absent
from crdtsyncd.cli.shared_options import at_option, key_argument
from crdtsyncd.cli.show import output

if TYPE_CHECKING:
    from crdtsync.client import Entry
    from crdtsync.client.values.points import Point


@state_command("get")
@key_argument
@click.option(
    "--raw", is_flag=True, help="Print a string without quotes and bytes as they are; no line end but on a terminal."
)
@click.option("--siblings", "all_values", is_flag=True, help="Print the winner and its siblings, one a line.")
@at_option
def get(settings: Settings, key: str, raw: bool, all_values: bool, at: Point | None) -> None:
    """Print the value of a key as JSON.

    Values that were written at the same time, none having seen the other, are siblings: get prints the winner, and a
    warning if there are others. With --json it prints the whole entry on one line: value, kind, version, author,
    siblings, and a token for all that this node shows. Pass the version to --seen of a write to replace them all.

    The read policy of the key says which value wins (crdtsync schema). With the policy all, get prints the list of
    all; with manual, the exit status is 6 if there are several, and --siblings shows them.

    \b
    Examples:
      crdtsync get plan/goal
      crdtsync get plan/goal --json
      crdtsync get plan/goal --at 10m
    """
    if raw and (settings.json or all_values):
        raise click.UsageError("--raw prints one value as it is: leave out --json and --siblings.")
    with connect(settings) as attached:
        client = past(attached, at)
        entry = client.entry(key)
        if entry is not None and entry.siblings and entry.policy == "manual" and not all_values:
            client.get(key)  # refused with what to do, unless it was settled just now
            entry = client.entry(key)
        whole = client.get(key) if entry is not None and entry.policy == "all" else None
        token = client.last_token
        is_document = entry is not None and entry.kind == "text" and not entry.value and bool(client.doc(key).get())
    if entry is None:
        raise absent(f"{key!r} {'does not exist' if at is None else 'did not exist then'}")
    if settings.json:
        output.line(output.record({**output.entry_fields(entry), "token": token}))
    elif all_values:
        for one in (entry, *entry.siblings):
            output.line(json_values.dumps(output.shown_value(one)))
    elif entry.policy == "all":
        output.line(json_values.dumps(whole))
    else:
        _print_winner(entry, raw=raw)
    if is_document:
        output.warning(f"{key!r} is a document, and its text is empty: see it with crdtsync doc")


def _print_winner(entry: Entry, *, raw: bool) -> None:
    if raw and isinstance(entry.value, str | bytes):
        output.whole(entry.value if isinstance(entry.value, bytes) else entry.value.encode(), as_it_is=True)
    else:
        output.line(json_values.dumps(entry.value))
    others = len(entry.siblings)
    if others:
        what = "another value was" if others == 1 else f"{others} other values were"
        by_policy = "" if entry.policy in (None, "lww") else f" (read policy {entry.policy})"
        output.warning(f"{what} written to {entry.key!r} at the same time{by_policy}; see them with --siblings")
