"""Joining a cluster with what this node holds: exported, the node begins anew as a member, and it is imported there."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crdtsyncd.cli import ndjson, output
from crdtsyncd.cli.commands.export import line_of
from crdtsyncd.cli.importing import Importer
from crdtsyncd.cli.records import record_of
from crdtsyncd.cli.session import all_entries, connect

from crdtsync.errors import CrdtSyncError

if TYPE_CHECKING:
    from crdtsyncd.cli.command import Settings


def join_and_merge(settings: Settings, invite: str, listen: tuple[str, ...]) -> dict[str, Any]:
    """As the command ``cluster join --merge``.

    What the cluster holds of a key too becomes a sibling, or is counted on, added and appended in the way of the key's
    kind. If this stops half way, all is still in the archive, and the exported lines are where the message says.
    """
    with connect(settings) as client:
        spaces = [str(space["name"]) for space in client.status()["spaces"] if space["keys"]]
    place = Path(tempfile.mkdtemp(prefix="crdtsync-merge-"))
    for space in spaces:
        with connect(replace(settings, space=space)) as client, (place / f"{space}.ndjson").open("w") as file:
            for listed in all_entries(client, "", values=True):
                line = line_of(client, listed)
                if line is not None:
                    file.write(f"{line}\n")
    with connect(settings) as client:
        fields = client.cluster_join(invite, listen=listen, archive=True)
    for space in spaces:
        _import(settings, space, place / f"{space}.ndjson")
    if not list(place.iterdir()):
        place.rmdir()
    return fields


def _import(settings: Settings, space: str, path: Path) -> None:
    try:
        with connect(replace(settings, space=space)) as client, path.open("rb") as file:
            for _ in Importer(client, "sibling").write(map(record_of, ndjson.lines(file, str(path)))):
                pass
    except CrdtSyncError as error:
        output.warning(
            f"this node has joined, but what it held in the space {space} is not in the cluster yet: {error.message}; "
            f"it is in {path}, for crdtsync --space {space} import --on-conflict sibling"
        )
    else:
        path.unlink()
