"""``export``: keys as NDJSON, to be imported elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crdtsyncd.cli import output
from crdtsyncd.cli.arguments import prefix_argument
from crdtsyncd.cli.command import Settings, pass_settings, state_command
from crdtsyncd.cli.progress import Progress
from crdtsyncd.cli.records import KINDS, exported, left_out
from crdtsyncd.cli.session import all_entries, connect, whole_entry

if TYPE_CHECKING:
    from crdtsync.client import Client, Entry


@state_command("export")
@prefix_argument
@pass_settings
def export(settings: Settings, prefix: str) -> None:
    """Print keys with their values, for crdtsync import.

    Every key that begins with PREFIX becomes a JSON object on a line. Keys are read one after the other: what is
    written meanwhile may be in it or not. Siblings are included; of a log, set, map or counter what it holds, but not
    who wrote each part of it.

    \b
    Example:
      crdtsync export plan/ > plan.ndjson
    """
    with connect(settings) as client, Progress("keys exported") as progress:
        for listed in all_entries(client, prefix, values=True):
            line = line_of(client, listed)
            if line is not None:
                output.line(line)
                progress.advance()


def line_of(client: Client, listed: Entry) -> str | None:
    """What is printed of a key; None if it has gone meanwhile."""
    entry = listed if listed.kind == "register" else whole_entry(client, listed.key)
    if entry is None:
        return None  # deleted since it was listed
    if entry.kind not in KINDS:
        output.warning(f"{entry.key} was left out: this version does not know the kind {entry.kind}")
        return None
    for sibling in left_out(entry):
        why = f"it is a {sibling.kind}, and the winner a {entry.kind}"
        if sibling.kind == entry.kind:
            why = "resolve it with --merge first to have both"
        output.warning(f"a sibling of {entry.key} was left out: {why}")
    return exported(entry)
