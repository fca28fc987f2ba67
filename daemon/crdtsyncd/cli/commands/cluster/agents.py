"""``agent``: agents that prove their name with a key."""

from __future__ import annotations

import os
from typing import Any

import click
from crdtsyncd.cli.command import Settings, StateGroup
from crdtsyncd.cli.connect import connect
from crdtsyncd.cli.errors import CommandFailed
from crdtsyncd.cli.params import NAME
from crdtsyncd.cli.show import output
from crdtsyncd.cli.show.tables import Column, show_rows
from crdtsyncd.wording import ago, moment

KEY_FILE_MODE = 0o600


@click.group("agent", cls=StateGroup)
def agent() -> None:
    """Make, list and revoke agents that prove their name with a key.

    Such an agent has the rights that are granted to it, whatever its user may do: see `crdtsync access`.

    It gives its key by CRDTSYNC_AGENT_KEY, or by CRDTSYNC_AGENT_KEY_FILE or --agent-key-file.
    """


@agent.command("create")
@click.argument("name", type=NAME)
@click.option(
    "--file", "path", metavar="FILE", type=click.Path(), help="Write the key there instead, readable for you."
)
def create(settings: Settings, name: str, path: str | None) -> None:
    """Make an agent, on all hosts, and print its key. Nobody can show it again: only a hash of it is kept.

    The agent has no rights yet. For root and the user that crdtsyncd runs as.

    \b
    Examples:
      crdtsync agent create researcher-1
      crdtsync agent create researcher-1 --file researcher-1.key
    """
    if path is None:
        with connect(settings) as client:
            fields = client.agent_create(name)
        output.result(settings, str(fields["key"]), fields)
        return
    fields = _create_with_file(settings, name, path)
    output.result(settings, f"the key of {name} is in {path}", {**fields, "key": None, "file": path})


def _create_with_file(settings: Settings, name: str, path: str) -> dict[str, Any]:
    """The key goes to its file first: an agent whose key nobody has would be of no use, and its name taken."""
    from crdtsync.client.operations.agent_keys import new_agent_key
    from crdtsync.errors import DaemonUnavailable, Timeout

    key, is_asked = new_agent_key(name), False
    _write_new(path, f"{key}\n".encode())
    try:
        with connect(settings) as client:
            is_asked = True
            return client.agent_create(name, key=key)
    except BaseException as error:
        if is_asked and isinstance(error, DaemonUnavailable | Timeout):  # it may have been made
            message = f"{error}: if crdtsync agent list shows {name}, its key is in {path}; if not, remove that file"
            raise CommandFailed(message, status=error.exit_status, code=error.code) from None
        os.unlink(path)  # noqa: PTH108  # it was made above
        raise


def _write_new(path: str, content: bytes) -> None:
    """Write a new file, readable for its owner alone, to the disk. If that fails there is none."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, KEY_FILE_MODE)
    try:
        with os.fdopen(file, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(file)
    except BaseException:
        os.unlink(path)  # noqa: PTH108  # as above
        raise


@agent.command("list")
def list_(settings: Settings) -> None:
    """List the agents with keys. Who does not run this node sees itself alone. With --json one object a line.

    \b
    Example:
      crdtsync agent list
    """
    with connect(settings) as client:
        found = client.agent_list()
    for one in found:
        one["time"] = moment(one.get("time"))
    show_rows(settings, COLUMNS, found, "no agents with keys: crdtsync agent create NAME makes one")


@agent.command("revoke")
@click.argument("name", type=NAME)
def revoke(settings: Settings, name: str) -> None:
    """Make the key of an agent worthless, on all hosts. Its connections end, at once where that is known.

    What it has written stays, and so do the rules for it: they hold again if it is made anew.

    \b
    Example:
      crdtsync agent revoke researcher-1
    """
    with connect(settings) as client:
        fields = client.agent_revoke(name)
    output.result(settings, f"revoked {name}, {fields['ended']} connections ended here", fields)


COLUMNS = (
    Column("AGENT", lambda row: str(row["name"])),
    Column("ATTACHED", is_number=True),
    Column("SINCE", lambda row: ago(row["time"]) if row["time"] else ""),
    Column("MADE BY", lambda row: str(row["by"] or "")),
)
