"""``watch``: changes as they happen."""

from __future__ import annotations

import sys
from shutil import get_terminal_size

import click
from crdtsyncd.cli.command import Settings, state_command
from crdtsyncd.cli.connect import connect
from crdtsyncd.cli.params import TEXT
from crdtsyncd.cli.shared_options import prefix_argument
from crdtsyncd.cli.show import output
from crdtsyncd.cli.show.streams import end_with_reader, nothing_came
from crdtsyncd.cli.show.watch_lines import told

from crdtsync.errors import Timeout


@state_command("watch")
@prefix_argument
@click.option("--after", metavar="TOKEN", type=TEXT, help="Tell what has changed since TOKEN, instead of a snapshot.")
@click.option("--no-snapshot", is_flag=True, help="Tell only what comes from now on.")
def watch(settings: Settings, prefix: str, after: str | None, no_snapshot: bool) -> None:
    """Print changes as they come.

    On a terminal a line each, else, or with --json, one JSON event a line.
    Of the keys that begin with PREFIX, until Ctrl-C. First comes a snapshot event for each key that exists, then
    one without a key; with --after TOKEN instead what has changed since. Each event's token resumes right behind
    it. Ctrl-C ends it with status 130, and --timeout with 5 when no event came for so long.

    \b
    snapshot: a key that exists; with key null the end of the snapshot
    set: a change of a key; op is the operation
    delete: the key is gone
    expired: the key is gone, for its time is over
    conflict: after this change the key has siblings
    batch: a change of several keys, with their events
    lagged: this watch was too slow; the newest state of each key follows
    reset: the token is too old; forget what you hold, a snapshot follows

    \b
    Example:
      crdtsync watch plan/ | jq -c '[.event, .key, .value]'
    """
    end_with_reader()
    is_plain = sys.stdout.isatty() and not settings.json
    with (
        connect(settings) as client,
        client.watch(prefix, after=after, snapshot=not no_snapshot, timeout=settings.timeout) as events,
    ):
        try:
            for event in events:
                if is_plain:
                    for line in told(event, get_terminal_size().columns):
                        output.line(line)
                else:
                    output.line(output.record(output.event_fields(event)))
                output.flush()
        except Timeout as late:
            way_on = f"; to go on, watch again with --after {events.token}" if events.token else ""
            raise nothing_came("event", late, way_on) from None
