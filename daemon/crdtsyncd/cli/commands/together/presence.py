"""``who``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crdtsyncd.cli.command import Settings, state_command
from crdtsyncd.cli.commands.together.again import show_again, watch_option
from crdtsyncd.cli.connect import connect
from crdtsyncd.cli.show.tables import Column, show_rows

if TYPE_CHECKING:
    from crdtsync import Client


@state_command("who")
@watch_option
def who(settings: Settings, is_watching: bool) -> None:
    """Print who is here, on all hosts that can be reached.

    These are the agents that show themselves, and whoever else is attached to this daemon. With --json each is an
    object on a line.

    \b
    Example:
      crdtsync who
    """
    with connect(settings) as client:
        show_again(lambda: _rows(client), lambda rows: show_rows(settings, COLUMNS, rows), is_watching=is_watching)


def _rows(client: Client) -> list[dict[str, Any]]:
    return [
        {
            "agent": one.agent, "node": one.node, "role": one.role, "status": one.status, "since": one.since,
            "claims": list(one.claims),
        }
        for one in client.who()
    ]  # fmt: skip


COLUMNS = (
    Column("NODE"),
    Column("AGENT"),
    Column("ROLE"),
    Column("STATUS", folds=True),
    Column("CLAIMS", lambda row: " ".join(row["claims"]), folds=True),
)
