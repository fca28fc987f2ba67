"""Arguments and options that several commands share, and where the content behind them comes from."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from crdtsyncd.cli.data import json_values
from crdtsyncd.cli.errors import refused_value
from crdtsyncd.cli.params import AT, CONFIDENCE, FILE, KEY, TEXT, WRITE_CONCERN
from crdtsyncd.cli.show import output

if TYPE_CHECKING:
    from collections.abc import Callable

STDIN = "-"

key_argument = click.argument("key", type=KEY)
value_argument = click.argument("value", type=TEXT)
prefix_argument = click.argument("prefix", type=KEY, default="")


def all_of(*options: Callable[[Any], Any]) -> Callable[[Any], Any]:  # Any: as click's decorators
    """Several options, or arguments, that commands have together."""

    def decorate(command: Any) -> Any:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def _check_conditions(context: click.Context, option: click.Parameter, given: Any) -> Any:
    """No key is at a version and absent too."""
    other = context.params.get("if_absent" if option.name == "if_version" else "if_version")
    if given not in (None, False) and other not in (None, False):
        raise click.UsageError("--if-version and --if-absent exclude each other: leave one of them out.")
    return given


if_version_option = click.option(
    "--if-version",
    metavar="V",
    type=TEXT,
    callback=_check_conditions,
    help="Only if the key is at this version (get --json shows it).",
)
if_absent_option = click.option(
    "--if-absent", is_flag=True, callback=_check_conditions, help="Only if the key does not exist."
)
string_option = click.option("--string", "as_string", is_flag=True, help="The value is a string: take it literally.")
at_option = click.option(
    "--at",
    metavar="AT",
    type=AT,
    help="As of a point of the past: a token, checkpoint:NAME, a time, or so long ago, such as 10m.",
)
concern_option = click.option(
    "-w",
    "--write-concern",
    "w",
    metavar="N|majority|all",
    type=WRITE_CONCERN,
    help="Return when this many nodes have it on disk.",
)
conditions_option = all_of(if_version_option, if_absent_option, concern_option)
"""On what a write is done, and how many hold it when it returns: as the client's methods take them."""
condition_option = all_of(if_version_option, concern_option)
"""The same of one that needs the key to be there."""
confidence_option = click.option(
    "--confidence", metavar="F", type=CONFIDENCE, help="How sure the author is, from 0 to 1."
)
token_file_option = click.option(
    "--token-file",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Holds the token that requests show; made if absent.",
)


def loopback_place(given: str, option: str) -> tuple[str, int]:
    """The host and port that ``[HOST:]PORT`` stands for."""
    host, _, port = given.rpartition(":")
    if not port.isdigit() or int(port) > 65535:
        raise click.BadParameter(f"{given!r} is not [HOST:]PORT", param_hint=option)
    return host.strip("[]") or "127.0.0.1", int(port)


def token_of(file: Path | None, server: str) -> tuple[str, Callable[[str], None]]:
    """The token that who connects to a server of ours must show, and what says where that server listens."""
    from crdtsync.loopback import token_in

    path = file or Path(click.get_app_dir("crdtsync")) / f"{server}-token"

    def ready(address: str) -> None:
        output.line(f"{address}, for who shows the token in {path}")
        output.flush()

    return token_in(path), ready


def file_argument(name: str, **kwargs: Any) -> Callable[[Any], Any]:  # Any: as click's decorators
    """A file to read, ``-`` for stdin; it is an error of files when it cannot be opened."""
    return click.argument(name, metavar=name.upper(), type=FILE, **kwargs)


def value_of(word: str, *, as_string: bool, instead: str = "quote it, or use --string") -> json_values.Value:
    """The value that VALUE stands for: JSON or, with ``--string``, the text itself; ``-`` takes it from stdin.

    ``instead`` says what to do about a word that is not JSON.
    """
    if word == STDIN:
        return _value_from_stdin(as_string=as_string, instead=instead)
    if as_string:
        return word
    try:
        return json_values.loads(word)
    except json_values.NotJson as error:
        shown = word if len(word) <= 40 else f"{word[:37]}..."
        raise click.UsageError(f"{shown!r} is not JSON ({error}): {instead}.") from None
    except json_values.NotStorable as error:
        raise refused_value(f"the value cannot be stored: {error}") from None


def fields_of(word: str, option: str) -> dict[str, json_values.Value]:
    """The JSON object that an option has as its value."""
    content = value_of(word, as_string=False, instead="quote it")
    if not isinstance(content, dict):
        raise click.UsageError(f'{option} takes a JSON object, such as \'{{"role": "critic"}}\'.')
    return content


def _value_from_stdin(*, as_string: bool, instead: str) -> json_values.Value:
    content = read_text(sys.stdin.buffer.read(), "stdin")
    if as_string:
        return content
    if not content.strip():
        raise refused_value("stdin is empty, and that is not JSON: pipe a value in")
    try:
        return json_values.loads(content)
    except json_values.NotJson as error:
        raise refused_value(f"stdin is not JSON ({error}): {instead}") from None
    except json_values.NotStorable as error:
        raise refused_value(f"what stdin holds cannot be stored: {error}") from None


def read_text(content: bytes, source: str) -> str:
    """The text in some bytes; they have to be UTF-8."""
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        message = f"{source} is not UTF-8 text: byte {error.start} is 0x{content[error.start]:02x}."
        raise refused_value(message) from None
