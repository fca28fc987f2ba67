"""``update``: a value through a command and back, written only if nothing came between."""

from __future__ import annotations

import subprocess

import click
from crdtsyncd.cli.command import Settings, state_command
from crdtsyncd.cli.connect import connect
from crdtsyncd.cli.data.value_form import NOTHING, ValueForm
from crdtsyncd.cli.errors import NOT_EXECUTABLE, NOT_FOUND, CommandFailed
from crdtsyncd.cli.params import WriteConcernValue
from crdtsyncd.cli.shared_options import concern_option, key_argument
from crdtsyncd.cli.show import output


@state_command("update")
@key_argument
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- CMD...")
@click.option("--string", "as_string", is_flag=True, help="The value is a string: CMD gets and prints plain text.")
@click.option("--attempts", metavar="N", type=click.IntRange(1), default=16, help="Run CMD at most N times, not 16.")
@concern_option
def update(
    settings: Settings,
    key: str,
    command: tuple[str, ...],
    as_string: bool,
    attempts: int,
    w: WriteConcernValue | None,
) -> None:
    """Run a value through a command and write what it prints.

    CMD finds the value as JSON on its stdin (nothing at all if the key is absent) and prints the new one on its
    stdout. That is written only if nothing else was written meanwhile; otherwise CMD is run again on the new
    value. If CMD fails, nothing is written and the exit status is CMD's.

    \b
    Example:
      crdtsync update plan/goal -- jq '.done = true'
    """
    form = ValueForm(as_string=as_string)

    def through_command(value: object) -> object:
        return form.decode(filtered(command, form.encode(value)), f"what {command[0]!r} printed")

    with connect(settings) as client:
        token = client.update(key, through_command, default=NOTHING, attempts=attempts, w=w)
    output.result(settings, token, {"token": token})


def filtered(command: tuple[str, ...], content: bytes) -> bytes:
    """The output of the command when it is fed the content."""
    try:
        done = subprocess.run(command, input=content, stdout=subprocess.PIPE, check=False)
    except FileNotFoundError:
        raise _failed(command, "was not found", NOT_FOUND) from None
    except OSError as error:
        raise _failed(command, f"cannot be run ({error.strerror})", NOT_EXECUTABLE) from None
    if done.returncode < 0:
        raise _failed(command, f"was ended by signal {-done.returncode}", 128 - done.returncode)
    if done.returncode > 0:
        raise _failed(command, f"failed with status {done.returncode}", done.returncode)
    return done.stdout


def _failed(command: tuple[str, ...], what: str, status: int) -> CommandFailed:
    return CommandFailed(f"{command[0]!r} {what}; nothing was written", status=status, code="command_failed")
