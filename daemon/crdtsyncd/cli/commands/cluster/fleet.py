"""``cluster status``: how all nodes are, as far as this one has heard."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crdtsyncd.cli.command import Settings, state_command
from crdtsyncd.cli.connect import connect
from crdtsyncd.cli.show import output
from crdtsyncd.cli.show.tables import Column, show_rows
from crdtsyncd.wording import ago, byte_size, moment

from crdtsync.core.alarm_catalogue import alarm_of

Row = dict[str, Any]


@state_command("status")
def status(settings: Settings) -> None:
    """Show how all nodes of the cluster are: version, alarms, disk.

    What each node said last, heard by this one; of a node that is down, how it was. "?" is a node that says nothing,
    as an older version. What an alarm is about is shown on its own host alone: crdtsync status there. With --json one
    object a line.

    \b
    Example:
      crdtsync cluster status
    """
    with connect(settings) as client:
        rows = rows_of(client.status())
    show_rows(settings, COLUMNS, rows)
    if settings.json:
        return
    raised = [(row["name"], alarm) for row in rows for alarm in row["alarms"] or ()]
    if raised:
        output.line("")
    for name, alarm in raised:
        output.line(f"{name}  {alarm['code']}, since {ago(alarm['since'])}: {alarm_of(alarm['code']).remedy}")


def rows_of(status: Mapping[str, Any]) -> list[Row]:
    """One for each node, this one first, the others by name; ``alarms`` and sizes are None where nothing was heard."""
    node, store = status["node"], status["store"]
    here = {
        "id": node["id"],
        "name": node["name"],
        "connection": "self",
        "state": node["state"],
        "version": node["version"],
        "alarms": [{"code": alarm["code"], "since": moment(alarm["since"])} for alarm in status["alarms"]],
        "bytes": store.get("bytes"),
        "free_bytes": store.get("free_bytes"),
        "last_seen": None,
    }
    others = [_row(peer) for peer in status["peers"] if peer["id"] is not None]
    return [here, *sorted(others, key=lambda row: (str(row["name"]), str(row["id"])))]


def _row(peer: Mapping[str, Any]) -> Row:
    health = peer.get("health")
    told = health or {}
    return {
        "id": peer["id"],
        "name": peer["name"],
        "connection": peer["state"],
        "state": told.get("state"),
        "version": peer.get("version"),
        "alarms": [{**alarm, "since": moment(alarm["since"])} for alarm in health["alarms"]] if health else None,
        "bytes": told.get("bytes"),
        "free_bytes": told.get("free_bytes"),
        "last_seen": None if peer["state"] == "connected" else moment(peer.get("last_seen")),
    }


def _alarms(row: Mapping[str, Any]) -> str:
    if row["alarms"] is None:
        return "?"
    return ", ".join(dict.fromkeys(alarm["code"] for alarm in row["alarms"])) or "none"


def _size(name: str, title: str, spare: int) -> Column:
    def cell(row: Mapping[str, Any]) -> str:
        return "?" if row[name] is None else byte_size(row[name])

    return Column(title, cell, is_number=True, spare=spare)


COLUMNS = (
    Column("MEMBER", lambda row: str(row["name"] or str(row["id"])[:12])),
    Column("LINK", lambda row: str(row["connection"])),
    Column("STATE", lambda row: row["state"] or "?"),
    Column("VERSION", lambda row: row["version"] or "?", folds=True, spare=2),
    Column("ALARMS", _alarms, folds=True),
    _size("bytes", "DATA", 3),
    _size("free_bytes", "FREE", 1),
    Column("LAST SEEN", lambda row: ago(row["last_seen"]) if row["last_seen"] else "", spare=4),
)
