"""``context``: what agents hand each other, compact by default."""

from __future__ import annotations

from contextlib import suppress
from typing import IO, TYPE_CHECKING, Any

import click
from crdtsyncd.cli.command import Settings, StateGroup
from crdtsyncd.cli.commands.context.tokens import content_argument, kind_option, model_option
from crdtsyncd.cli.connect import connect
from crdtsyncd.cli.errors import absent
from crdtsyncd.cli.params import KEY, TTL
from crdtsyncd.cli.shared_options import key_argument
from crdtsyncd.cli.show import output
from crdtsyncd.wording import counted

if TYPE_CHECKING:
    from crdtsync.context import ContextEntry


@click.group("context", cls=StateGroup)
def context() -> None:
    """Hand results to other agents in few tokens.

    What is put is compressed once; others read the compact text, or all of it with --full.

    \b
    Example:
      crdtsync context put survey answer.json
    """


@context.command("put")
@key_argument
@content_argument
@kind_option
@click.option("--ttl", type=TTL, default="1h", show_default=True, help="When it is forgotten.")
@click.option("--max-entries", type=click.IntRange(1), default=100, show_default=True, help="With more, the oldest go.")
@model_option
def put(settings: Settings, key: str, file: IO[bytes], kind: str, ttl: float, max_entries: int, model: str) -> None:
    """Put the content of FILE, or of stdin, under KEY.

    \b
    Example:
      pytest 2>&1 | crdtsync context put test-run
    """
    from crdtsync.context import SharedContext

    content: str | bytes = file.read()
    with suppress(UnicodeDecodeError):  # what is no UTF-8 stays bytes
        content = content.decode()  # type: ignore[union-attr]  # bytes until here
    with connect(settings) as client:
        made = SharedContext(client, model=model, ttl=ttl, max_entries=max_entries).put(key, content, kind=kind)
    saved = f"{made.original_tokens:,} tokens, {made.compressed_tokens:,} compact"
    output.result(settings, saved, _fields(made))


@context.command("get")
@click.argument("key", type=KEY)
@click.option("--full", is_flag=True, help="All that was put, as it was.")
def get(settings: Settings, key: str, full: bool) -> None:
    """Print the compact text of KEY.

    \b
    Example:
      crdtsync context get survey --full > answer.json
    """
    from crdtsync.context import SharedContext
    from crdtsync.context.shared.entry import text_of

    with connect(settings) as client:
        entry = SharedContext(client).get_entry(key)
    if entry is None:
        raise absent(f"nothing was put under {key!r}, or its time is over")
    if settings.json:
        output.line(output.record({**_fields(entry), **({"original": entry.original} if full else {})}))
    elif full:
        output.whole(entry.original if isinstance(entry.original, bytes) else text_of(entry.original).encode())
        if entry.siblings:
            others = ", ".join(sorted({one.agent or "somebody" for one in entry.siblings}))
            output.warning(f"{others} put something else at the same time: crdtsync context get {key} shows each")
    else:
        output.whole(f"{entry.text}\n".encode())


@context.command("ls")
def ls(settings: Settings) -> None:
    """Print what was put, a key a line.

    \b
    Example:
      crdtsync context ls
    """
    from crdtsync.context import SharedContext

    with connect(settings) as client:
        found = SharedContext(client).keys()
    output.lines(settings, ((key, {"key": key}) for key in found), "nothing was put: crdtsync context put puts it")


@context.command("stats")
def stats(settings: Settings) -> None:
    """Print how much is there, and what reading it compactly saves.

    \b
    Example:
      crdtsync context stats
    """
    from crdtsync.context import SharedContext

    with connect(settings) as client:
        found = SharedContext(client).stats()
    said = (
        f"{counted(found.entries, 'result')}, {counted(found.total_original_tokens, 'token')},"
        f" {found.total_compressed_tokens:,} compact ({found.savings_percent} % saved)"
    )
    fields = {
        "entries": found.entries,
        "total_original_tokens": found.total_original_tokens,
        "total_compressed_tokens": found.total_compressed_tokens,
        "total_tokens_saved": found.total_tokens_saved,
        "savings_percent": found.savings_percent,
    }
    output.result(settings, said, fields)


@context.command("clear")
def clear(settings: Settings) -> None:
    """Remove all that was put.

    \b
    Example:
      crdtsync context clear
    """
    from crdtsync.context import SharedContext

    with connect(settings) as client:
        gone = SharedContext(client).clear()
    output.result(settings, f"{gone:,} removed", {"removed": gone})


def _fields(entry: ContextEntry) -> dict[str, Any]:
    return {
        "key": entry.key,
        "compressed": entry.compressed,
        "original_tokens": entry.original_tokens,
        "compressed_tokens": entry.compressed_tokens,
        "savings_percent": entry.savings_percent,
        "agent": entry.agent,
        "timestamp": entry.timestamp,
        "transforms": list(entry.transforms),
        "left_out": list(entry.left_out),
        "siblings": [_fields(one) for one in entry.siblings],
    }
