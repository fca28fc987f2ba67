"""``ask``, ``asks`` and ``answer``."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click
from crdtsyncd.cli.command import Settings, state_command
from crdtsyncd.cli.commands.together.again import show_again, watch_option
from crdtsyncd.cli.connect import connect
from crdtsyncd.cli.data import json_values
from crdtsyncd.cli.params import DURATION, TEXT
from crdtsyncd.cli.shared_options import key_argument, prefix_argument
from crdtsyncd.cli.show import output
from crdtsyncd.cli.show.tables import Column, show_rows

if TYPE_CHECKING:
    from crdtsync.coordination import Question


@state_command("ask")
@key_argument
@click.argument("question", type=TEXT, default="")
@click.option("--option", "options", metavar="TEXT", type=TEXT, multiple=True, help="One of the possible answers.")
@click.option("--context", metavar="TEXT", type=TEXT, help="What helps to decide.")
@click.option("--deadline", metavar="DURATION", type=DURATION, help="After so long --default is the answer.")
@click.option("--default", metavar="TEXT", type=TEXT, help="The answer if nobody answers in time.")
@click.option("--anew", is_flag=True, help="Forget what was asked and answered under KEY before.")
def ask(settings: Settings, key: str, **options: Any) -> None:
    """Ask a person, wait for the answer, and print it.

    Whoever asks the same under KEY again, or without QUESTION, also on another host, goes on waiting, or has the answer
    at once; another question is refused without --anew. With --timeout the exit status is 5 if nobody has answered by
    then; the question stays.

    \b
    Example:
      crdtsync ask deploy 'Ship it?' --option yes --option no
    """
    if (options["deadline"] is None) != (options["default"] is None):
        raise click.UsageError("--deadline and --default go together: the answer if nobody gives another one in time")
    with connect(settings) as client:
        answer = client.ask(key, timeout=settings.timeout, **options)
    output.result(settings, _plain(answer), {"key": key, "answer": answer})


@state_command("asks")
@prefix_argument
@click.option("--all", "answered", is_flag=True, help="Also what is answered.")
@watch_option
@click.option("--remind", metavar="DURATION", type=DURATION, help="With --watch: also each time that so long has gone.")
def asks(settings: Settings, prefix: str, answered: bool, is_watching: bool, remind: float | None) -> None:
    """Print the questions that wait for somebody.

    Two answers mean that two people answered at once: crdtsync answer --settle says which one stands. With --json each
    question is an object on a line.

    \b
    Examples:
      crdtsync asks
      crdtsync asks --watch --remind 1h
    """
    if remind is not None and not is_watching:
        raise click.UsageError("--remind needs --watch")
    with connect(settings) as client:
        show_again(
            lambda: [_fields(one) for one in client.asks(prefix, answered=answered)],
            lambda found: show_rows(settings, COLUMNS, found, "no questions"),
            is_watching=is_watching,
            remind_s=remind,
        )


COLUMNS = (
    Column("KEY"),
    Column("QUESTION", folds=True),
    Column("OPTIONS", lambda row: " ".join(map(_plain, row["options"]))),
    Column("ASKED BY", lambda row: f"{row['agent']} on {row['node']}"),
    Column("ANSWERS", lambda row: " ".join(f"{_plain(one['value'])} ({one['agent']})" for one in row["answers"])),
)


@state_command("answer")
@key_argument
@click.argument("value", type=TEXT)
@click.option("--note", metavar="TEXT", type=TEXT, default="", help="Why.")
@click.option("--settle", is_flag=True, help="In place of the answers that there are.")
def answer(settings: Settings, key: str, value: str, note: str, settle: bool) -> None:
    """Answer a question, once.

    VALUE is one of the options, or any text where there are none. The exit status is 1 if it is answered already, and 6
    if somebody on another host answered otherwise at the same moment.

    \b
    Example:
      crdtsync answer deploy yes --note 'the tests pass'
    """
    with connect(settings) as client:
        asked = next((one for one in client.asks(key, answered=True) if one.name == key), None)
        options = () if asked is None else asked.options
        said = next((option for option in options if _plain(option) == value), value)
        client.answer(key, said, note=note, settle=settle)
    output.done(settings, {"key": key, "answer": said})


def _plain(value: object) -> str:
    return value if isinstance(value, str) else json_values.dumps(value)


def _fields(found: Question) -> dict[str, Any]:
    fields = asdict(found)
    return {"key": fields.pop("name"), **fields}
