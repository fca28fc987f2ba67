"""``conflicts`` and ``resolve``: keys with several values, and the settling of them."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click
from crdtsyncd.cli.command import Settings, state_command
from crdtsyncd.cli.connect import all_conflicts, connect
from crdtsyncd.cli.data import json_values
from crdtsyncd.cli.errors import absent
from crdtsyncd.cli.params import TEXT
from crdtsyncd.cli.shared_options import (
    condition_option,
    key_argument,
    prefix_argument,
    value_of,
)
from crdtsyncd.cli.show import output
from crdtsyncd.cli.show.tables import Column, show_rows

from crdtsync.errors import InvalidRequest, VersionMismatch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crdtsync.client import Entry, Session


@state_command("conflicts")
@prefix_argument
def conflicts(settings: Settings, prefix: str) -> None:
    """Show the keys that have several values, written at once.

    Of the keys that begin with PREFIX; the winner of a key first, then its siblings, in the order of its read policy.
    DOT names a value. SEEN has the dots of what it took the place of, having read it: "-" is nothing that was still
    there, "?" is not known on this node. Siblings in a map are other values of one field.
    Of a document VALUE is its map, which crdtsync doc KEY --sibling DOT shows, too.
    With --json each key is an object on a line, as from get --json --siblings. Settle them with crdtsync resolve.

    \b
    Example:
      crdtsync conflicts plan/
    """
    with connect(settings) as client:
        found = all_conflicts(client, prefix)
        rows = (
            map(output.entry_fields, found)
            if settings.json
            else (row for entry in found for row in _rows(client, entry))
        )
        show_rows(settings, COLUMNS, rows, "no conflicts")


COLUMNS = (
    Column("KEY"),
    Column("POLICY", lambda row: "" if row.get("policy") in (None, "lww") else row["policy"]),
    Column("DOT"),
    Column("AGENT"),
    Column("NODE"),
    Column("TIME"),
    Column("SEEN", lambda row: "?" if row["seen"] is None else " ".join(row["seen"]) or "-"),
    Column("CONFIDENCE"),
    Column("VALUE", lambda row: json_values.dumps(row["value"]), folds=True),
)


def _rows(client: Session, entry: Entry) -> Iterator[dict[str, Any]]:  # Any: as the columns have it
    for one in (entry, *entry.siblings):
        value = output.shown_value(one)
        if one.kind == "text" and value == "":
            with suppress(InvalidRequest, VersionMismatch):  # it was settled meanwhile, or the daemon is older
                value = client.doc(entry.key).get(sibling=one.dot) or value
        yield {**output.entry_fields(one), "value": value, "seen": one.seen}


@state_command("resolve")
@key_argument
@click.option("--take", metavar="DOT", type=TEXT, help="Keep the value with this dot (conflicts shows it).")
@click.option("--value", metavar="JSON", type=TEXT, help="Write this value instead of them all.")
@click.option("--merge", is_flag=True, help="Join concurrent texts into one.")
@click.option("--seen", metavar="V", type=TEXT, help="Replace exactly what this version covers.")
@condition_option
def resolve(
    settings: Settings,
    key: str,
    take: str | None,
    value: str | None,
    merge: bool,
    seen: str | None,
    **conditions: Any,
) -> None:
    """Make one value of several, and print the token.

    Exactly one of --take, --value and --merge says which. "-" as JSON reads it from stdin. Whatever values there are
    by now are replaced; with --seen only those that this version covers (conflicts --json shows it). Where there is
    one value only, --value replaces a register and refuses to replace another kind; the other two end with status 1.

    \b
    Examples:
      crdtsync resolve plan/goal --take 5423172.18.0
      crdtsync resolve plan/goal --value '"ship on friday"'
    """
    given = (take is not None) + (value is not None) + merge
    if given != 1:
        raise click.UsageError("give one of --take, --value and --merge" + (", not more." if given else "."))
    content = ... if value is None else value_of(value, as_string=False, instead="quote it")
    with connect(settings) as client:
        known = ... if seen is None else seen
        written = client.resolve(key, take=take, value=content, merge=merge, seen=known, **conditions)
    if value is None and not written.resolved:
        raise absent(f"{key!r} has no conflict: there is nothing to resolve")
    report = {"token": written, "version": written.version, "resolved": written.resolved, "nodes": written.nodes}
    output.result(settings, written, report)
