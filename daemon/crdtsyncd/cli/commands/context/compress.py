"""``compress``: a text in fewer tokens."""

from __future__ import annotations

from dataclasses import asdict
from typing import IO

import click
from crdtsyncd.cli.command import Settings, state_command
from crdtsyncd.cli.commands.context.tokens import content_argument, kind_option, model_option
from crdtsyncd.cli.show import output


@state_command("compress")
@content_argument
@kind_option
@click.option("--budget", metavar="TOKENS", type=click.IntRange(0), help="Never more than so many tokens.")
@click.option("--query", metavar="WORDS", help="What speaks of this stays longer.")
@model_option
def compress(settings: Settings, file: IO[bytes], kind: str, budget: int | None, query: str | None, model: str) -> None:
    """Print FILE, or what comes on stdin, in fewer tokens.

    JSON becomes tables, of logs each template is counted and errors stay, of code signatures stay. The last line names
    the file, where something was left out; with --json the answer says what. No daemon is asked.

    \b
    Example:
      crdtsync compress build.log --budget 800 --query "undeclared identifier"
    """
    from crdtsync.context import compress

    text = file.read().decode("utf-8", "replace")
    source = "what was piped into `crdtsync compress`" if file.name in ("-", "<stdin>") else str(file.name)
    short = compress(text, kind=kind, budget=budget, query=query, model=model, source=source)
    if settings.json:
        output.line(output.record(asdict(short) | {"savings_percent": short.savings_percent}))
    else:
        output.whole(f"{short.text}\n".encode("utf-8", "replace"))
