"""Entering a cluster with what this node holds: it is exported, and imported when the node is a member."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crdtsyncd.cli.connect import all_entries, connect
from crdtsyncd.cli.data import ndjson
from crdtsyncd.cli.data.export_records import lines_of, records_of
from crdtsyncd.cli.data.importer import Importer
from crdtsyncd.cli.errors import REFUSED, CommandFailed
from crdtsyncd.cli.show import output

from crdtsync.errors import CrdtSyncError, InvalidRequest, NotAllowed, QuotaExceeded, Refused

if TYPE_CHECKING:
    from collections.abc import Callable

    from crdtsyncd.cli.command import Settings

    from crdtsync.client import Client

STAY_BEHIND = "the access rules, quotas and agents' keys of this node do not come along: give them again in the cluster"
_NOTHING_DONE = (Refused, InvalidRequest, NotAllowed, QuotaExceeded)
"""After these answers the node holds what it held."""


def enter_and_merge(settings: Settings, enter: Callable[[Client, bool], dict[str, Any]]) -> dict[str, Any]:
    """As the commands ``cluster join --merge`` and ``cluster init --merge``; ``enter`` asks for it, and whether what
    this node holds is to be put aside.

    If the cluster holds a key too, its value becomes a sibling, or is counted on, added and appended in the way of the
    key's kind. A node whose data is of that cluster already, as that of a restored backup, keeps it instead. If this
    stops half way, all is still in the archive, and the exported lines are where the message says; where the node does
    not join, no such lines are left.

    :raises CommandFailed: it has joined, and not all that it held is in the cluster.
    """
    with connect(settings) as client:
        try:
            return enter(client, False)
        except Refused as refusal:
            if refusal.code != "not_empty":
                raise
        spaces = [str(space["name"]) for space in client.status()["spaces"] if space["keys"]]
    output.warning(STAY_BEHIND)
    place = Path(tempfile.mkdtemp(prefix="crdtsync-merge-"))
    try:
        for space in spaces:
            _export(settings, space, place / f"{space}.ndjson")
    except BaseException:
        shutil.rmtree(place, ignore_errors=True)
        raise
    try:
        with connect(settings) as client:
            fields = enter(client, True)
    except _NOTHING_DONE:
        shutil.rmtree(place, ignore_errors=True)
        raise
    except BaseException:
        output.warning(
            f"whether this node is a member now is not known; what it held is in {place}, for crdtsync import"
        )
        raise
    if fields.get("already"):  # what was exported is what the cluster holds
        shutil.rmtree(place, ignore_errors=True)
        return fields
    try:
        left = [space for space in spaces if not _import(settings, space, place / f"{space}.ndjson")]
    except BaseException:
        output.warning(
            f"this node is a member, and what it held is not all in the cluster: the rest is in {place}, a file for "
            "each space, for crdtsync --space SPACE import --on-conflict sibling FILE; of the space that was under way "
            "some is in already, and would be counted and appended twice"
        )
        raise
    if not list(place.iterdir()):
        place.rmdir()
    if left:
        raise CommandFailed(
            f"this node is a member of {fields['cluster']}, but not all came along: what it held in {', '.join(left)} "
            f"is in {place}, readable by you alone; import it and remove it",
            status=REFUSED,
            code="not_all_merged",
        )
    return fields


def _export(settings: Settings, space: str, path: Path) -> None:
    with connect(replace(settings, space=space)) as client, path.open("w") as file:
        for listed in all_entries(client, "", values=True):
            file.writelines(f"{line}\n" for line in lines_of(client, listed))


def _import(settings: Settings, space: str, path: Path) -> bool:
    """Whether all of it is in the cluster now."""
    try:
        with connect(replace(settings, space=space)) as client, path.open("rb") as file:
            for _ in Importer(client, "sibling").write(records_of(ndjson.lines(file, str(path)))):
                pass
    except CrdtSyncError as error:
        output.warning(
            f"this node is a member, but what it held in the space {space} is not in the cluster yet: {error.message}; "
            f"it is in {path}, for crdtsync --space {space} import --on-conflict sibling"
        )
        return False
    path.unlink()
    return True
