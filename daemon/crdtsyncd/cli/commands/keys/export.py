"""``export``: keys as NDJSON, to be imported elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crdtsyncd.cli.command import Settings, state_command
from crdtsyncd.cli.commands.conflicts.schema_migration import DeclaredSchemas
from crdtsyncd.cli.connect import all_entries, connect, past
from crdtsyncd.cli.data.export_records import lines_of
from crdtsyncd.cli.shared_options import at_option, prefix_argument
from crdtsyncd.cli.show import output
from crdtsyncd.cli.show.progress import Progress

if TYPE_CHECKING:
    from crdtsync.client.values.points import Point


@state_command("export")
@prefix_argument
@at_option
def export(settings: Settings, prefix: str, at: Point | None) -> None:
    """Print keys with their values, for crdtsync import.

    Every key that begins with PREFIX becomes a JSON object on a line. Keys are read one after the other: what is
    written meanwhile may be in it or not. Siblings are included; of a log, set, map or counter what it holds, but not
    who wrote each part of it. The bytes of a blob are on lines of their own behind it. What has no place in it, such as
    a document, or a sibling of a text or of a blob, is left out with a warning. Where the schema of a key has a
    version, its line says which (schema_version). With --at it is all of one moment, however much is written meanwhile.

    \b
    Example:
      crdtsync export plan/ > plan.ndjson
    """
    with connect(settings) as client, Progress("keys exported") as progress:
        source = past(client, at)
        schemas = DeclaredSchemas(client) if at is None and any(each.version for each in client.schemas()) else None
        for listed in all_entries(source, prefix, values=True):
            version = None if schemas is None else schemas.version_of(listed.key)
            for line in lines_of(source, listed, version):
                output.line(line)
            progress.advance()
