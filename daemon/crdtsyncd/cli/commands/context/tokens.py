"""``tokens``: how many tokens a text takes."""

from __future__ import annotations

from typing import IO

import click
from crdtsyncd.cli.command import Settings, state_command
from crdtsyncd.cli.params import FILE
from crdtsyncd.cli.shared_options import STDIN
from crdtsyncd.cli.show import output

from crdtsync.context.compact.detect import KINDS
from crdtsync.context.tokens import DEFAULT_MODEL

content_argument = click.argument("file", metavar="[FILE]", type=FILE, default=STDIN)
model_option = click.option(
    "--model", metavar="NAME", default=DEFAULT_MODEL, show_default=True, help="Whose tokens: gpt-5, claude-opus-4-5, …"
)
kind_option = click.option(
    "--kind", type=click.Choice(["auto", *KINDS]), default="auto", show_default=True, help="What it is."
)


@state_command("tokens")
@content_argument
@model_option
def tokens(settings: Settings, file: IO[bytes], model: str) -> None:
    """Count the tokens of FILE, or of what comes on stdin.

    OpenAI's vocabularies are known, so for its models the count is exact. For others it is an estimate that errs
    upwards; with --json the answer says how it came about. No daemon is asked.

    \b
    Example:
      crdtsync tokens notes.md --model gpt-5
    """
    from crdtsync.context import tokenizer

    counter = tokenizer(model)
    found = counter.count(file.read().decode("utf-8", "replace"))
    output.result(settings, str(found), {"tokens": found, "model": model, "exact": counter.exact, "how": counter.how})
