"""``purge``: have every host forget what keys hold and held."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from crdtsyncd.cli.command import Settings, state_command
from crdtsyncd.cli.connect import connect
from crdtsyncd.cli.errors import absent
from crdtsyncd.cli.params import TEXT
from crdtsyncd.cli.shared_options import concern_option
from crdtsyncd.cli.show import output
from crdtsyncd.cli.show.tables import Column, show_rows
from crdtsyncd.wording import ago

if TYPE_CHECKING:
    from crdtsyncd.cli.params import WriteConcernValue

    from crdtsync.client import Purge


@state_command("purge")
@click.argument("pattern", type=TEXT, required=False)
@click.option("--show", is_flag=True, help="Show what was purged, and what went on this host; of all patterns or one.")
@concern_option
def purge(settings: Settings, pattern: str | None, show: bool, w: WriteConcernValue | None) -> None:
    """Delete keys and all that they ever held, everywhere.

    PATTERN is a key, or has * for one part and ** for any number of parts. The values are gone for readers when the
    command returns, and prints the token. Then each host takes them out of its history, log and texts, and wipes its
    files; one that is away does so when it is back. --show says whether this host is done, and with how much: values
    of the past, changes of the log that lost a value, texts.

    What others write at the same time stays. Names of keys and a hash of each value stay in the log. Backups, and what
    agents have read, are not reached. It needs the right admin on all these keys.

    \b
    Examples:
      crdtsync purge notes/7
      crdtsync purge 'customers/4711/**' -w all
      crdtsync purge --show
    """
    if not show and pattern is None:
        raise click.UsageError("give the PATTERN to purge, or --show.")
    if show and w is not None:
        raise click.UsageError("--show writes nothing: leave out -w.")
    with connect(settings) as client:
        if show:
            found = [_fields(each) for each in client.purges(pattern)]
        else:
            assert pattern is not None
            token = client.purge(pattern, w=w)
            fields = {"token": token, "removed": token.removed, "more": token.more, "nodes": token.nodes}
            output.result(settings, token, fields)
            return
    if pattern is not None and not found:
        raise absent(f"{pattern!r} was not purged")
    show_rows(settings, COLUMNS, found, "nothing was purged")


def _fields(found: Purge) -> dict[str, Any]:  # Any: as the columns have it
    names = ("pattern", "done", "values", "changes", "texts", "agent", "node", "time")
    return {name: getattr(found, name) for name in names}


def _count(count: int | None) -> str:
    return "" if count is None else f"{count:,}"


COLUMNS = (
    Column("PATTERN", folds=True),
    Column("HERE", lambda row: "done" if row["done"] else "under way"),
    Column("VALUES", lambda row: _count(row["values"])),
    Column("CHANGES", lambda row: _count(row["changes"])),
    Column("TEXTS", lambda row: _count(row["texts"])),
    Column("AGENT"),
    Column("NODE"),
    Column("WHEN", lambda row: ago(row["time"])),
)
