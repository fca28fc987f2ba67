"""``who``."""

from __future__ import annotations

from time import sleep
from typing import Any

import click
from crdtsyncd.cli.command import Settings, pass_settings, state_command
from crdtsyncd.cli.connect import connect
from crdtsyncd.cli.show import output
from crdtsyncd.cli.show.streams import end_with_reader

WATCH_S = 0.5


@state_command("who")
@click.option("--watch", "is_watching", is_flag=True, help="Print it again when it changes, until Ctrl-C.")
@pass_settings
def who(settings: Settings, is_watching: bool) -> None:
    """Print who is here, on all hosts that can be reached.

    These are the agents that show themselves, and whoever else is attached to this daemon. With --json each is an
    object on a line.

    \b
    Example:
      crdtsync who
    """
    if is_watching:
        end_with_reader()
    with connect(settings) as client:
        before: list[dict[str, Any]] | None = None
        while True:
            found = [
                {
                    "agent": one.agent, "node": one.node, "role": one.role, "status": one.status, "since": one.since,
                    "claims": list(one.claims),
                }
                for one in client.who()
            ]  # fmt: skip
            if found != before:
                _show(settings, found)
                output.flush()
            if not is_watching:
                return
            before = found
            sleep(WATCH_S)


def _show(settings: Settings, found: list[dict[str, Any]]) -> None:
    from crdtsyncd.cli.show.tables import Column, show_table

    if settings.json:
        for row in found:
            output.line(output.record(row))
        return
    columns = (
        Column("NODE", lambda row: row["node"]),
        Column("AGENT", lambda row: row["agent"]),
        Column("ROLE", lambda row: row["role"] or ""),
        Column("STATUS", lambda row: row["status"], folds=True),
        Column("CLAIMS", lambda row: " ".join(row["claims"]), folds=True),
    )
    show_table(columns, found)
