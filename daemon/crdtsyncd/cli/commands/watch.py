"""``watch``: changes as they happen."""

from __future__ import annotations

from crdtsyncd.cli import output
from crdtsyncd.cli.arguments import after_option, prefix_argument
from crdtsyncd.cli.command import Settings, pass_settings, state_command
from crdtsyncd.cli.session import connect
from crdtsyncd.cli.streams import end_with_reader

from crdtsync.errors import Timeout


@state_command("watch")
@prefix_argument
@after_option
@pass_settings
def watch(settings: Settings, prefix: str, after: str | None) -> None:
    """Print changes as they come, one JSON event a line.

    Of the keys that begin with PREFIX, until Ctrl-C. First comes a snapshot event for each key that exists, then
    one without a key; with --after TOKEN instead what has changed since. Each event's token resumes right behind
    it. Ctrl-C ends it with status 130, and --timeout with 5 when no event came for so long.

    \b
    Example:
      crdtsync watch plan/ | jq -c '[.event, .key, .value]'
    """
    end_with_reader()
    with connect(settings) as client, client.watch(prefix, after=after, timeout=settings.timeout) as events:
        try:
            for event in events:
                output.line(output.record(output.event_fields(event)))
                output.flush()
        except Timeout:
            raise Timeout(f"no event came for so long; to go on, watch again with --after {events.token}") from None
