"""``export``: keys as NDJSON, to be imported elsewhere."""

from __future__ import annotations

from crdtsyncd.cli.command import Settings, pass_settings, state_command
from crdtsyncd.cli.connect import all_entries, connect
from crdtsyncd.cli.data.export_records import line_of
from crdtsyncd.cli.shared_options import prefix_argument
from crdtsyncd.cli.show import output
from crdtsyncd.cli.show.progress import Progress


@state_command("export")
@prefix_argument
@pass_settings
def export(settings: Settings, prefix: str) -> None:
    """Print keys with their values, for crdtsync import.

    Every key that begins with PREFIX becomes a JSON object on a line. Keys are read one after the other: what is
    written meanwhile may be in it or not. Siblings are included; of a log, set, map or counter what it holds, but not
    who wrote each part of it. What has no place in it, such as a sibling of a text, is left out with a warning.

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
