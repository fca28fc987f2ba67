"""``search``: entries by their words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from crdtsyncd.cli.command import Settings, state_command
from crdtsyncd.cli.connect import connect
from crdtsyncd.cli.params import AT, KEY, TEXT
from crdtsyncd.cli.show import output

if TYPE_CHECKING:
    from datetime import datetime

    from crdtsync.context.search.index import Found


@state_command("search")
@click.argument("words", nargs=-1, required=True, type=TEXT)
@click.option("--prefix", default="", type=KEY, help="Only keys that start with this.")
@click.option("--agent", metavar="NAME", type=TEXT, help="Only what this agent wrote last.")
@click.option("--kind", metavar="KIND", type=TEXT, help="Only keys of this kind: register, log, text, …")
@click.option("--since", metavar="T", type=AT, help="Only what was written since a time, or so lately: 2h, 1d.")
@click.option("--limit", type=click.IntRange(1, 1_000), default=10, show_default=True, help="How many at most.")
@click.option("--meaning", is_flag=True, help="Also find what says it in other words (crdtsync[meaning]; English).")
def search(
    settings: Settings, words: tuple[str, ...], since: datetime | str | None, meaning: bool, **wanted: Any
) -> None:
    """Find entries that speak of WORDS, the best first.

    The first search of a space on this host reads all of it; later ones only what is new. Who
    searches is the --agent before the command, or CRDTSYNC_AGENT.

    \b
    Example:
      crdtsync search disk full --prefix findings/ --since 1d
    """
    from crdtsync.context import Search

    if isinstance(since, str):
        raise click.UsageError(f"--since takes a time or how long ago, such as 2h, not {since!r}.")
    with connect(settings) as client:
        found = Search(client, meaning=meaning).search(" ".join(words), since=since, **wanted)
    output.lines(settings, map(_shown, found), f"nothing speaks of {' '.join(words)}")


def _shown(hit: Found) -> tuple[str, dict[str, object]]:
    time = hit.time.isoformat(timespec="seconds").replace("+00:00", "Z") if hit.time else None
    known: dict[str, object] = {"key": hit.key, "kind": hit.kind, "agent": hit.agent, "time": time}
    told = {**known, "snippet": hit.snippet, "score": round(hit.score, 3)}
    return f"{hit.key} ({hit.agent}, {time}): {hit.snippet}", told
