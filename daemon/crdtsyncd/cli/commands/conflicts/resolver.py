"""``resolver``: a command that settles conflicts as they come."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import click
from crdtsyncd.cli.command import Settings, state_command
from crdtsyncd.cli.connect import connect
from crdtsyncd.cli.data.value_form import ValueForm
from crdtsyncd.cli.errors import CommandFailed
from crdtsyncd.cli.params import TAKEOVER, TEXT
from crdtsyncd.cli.show import output
from crdtsyncd.cli.show.streams import end_with_reader, nothing_came

from crdtsync.errors import CrdtSyncError, Timeout

if TYPE_CHECKING:
    from crdtsync.client import Conflict, Resolver

TAKEOVER_S = 30.0


@state_command("resolver")
@click.argument("pattern", metavar="PATTERN", type=TEXT)
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="-- CMD...")
@click.option("--take", "is_take", is_flag=True, help="CMD prints the dot of the value to keep, not a value.")
@click.option("--merge", "is_merge", is_flag=True, help="Join concurrent texts, without a CMD.")
@click.option(
    "--takeover", metavar="DURATION", type=TAKEOVER, help="After so long CMD is ended and others are asked, not 30s."
)
def resolver(
    settings: Settings,
    pattern: str,
    command: tuple[str, ...],
    is_take: bool,
    is_merge: bool,
    takeover: float | None,
) -> None:
    """Settle conflicts with a command, until Ctrl-C.

    Of the keys that match PATTERN: * is one part of a key, ** any number of parts. For each conflict CMD finds on its
    stdin what crdtsync conflicts --json shows of the key, and prints the value as JSON that replaces all that it was
    shown. If it fails, or prints no JSON, or takes too long, another resolver is asked, or this one later again. Of
    several resolvers, also on other hosts that can be reached, one is asked. Each settled key is printed, with --json
    an object with its token. With --timeout it ends with status 5 when no conflict came for so long.

    \b
    Examples:
      crdtsync resolver 'plan/*' -- jq '[.value, .siblings[].value] | max'
      crdtsync resolver 'notes/**' --merge
    """
    if is_merge == bool(command):
        raise click.UsageError("give either a CMD after --, or --merge.")
    if is_merge and is_take:
        raise click.UsageError("--take is about what CMD prints, and with --merge there is none.")
    end_with_reader()
    limit_s = TAKEOVER_S if takeover is None else takeover
    with connect(settings) as client, client.resolver(pattern, takeover=limit_s) as conflicts:
        while (conflict := _next(settings, conflicts)) is not None:
            try:
                answer = conflict.merge() if is_merge else _answer(command, conflict, is_take, limit_s)
                written = conflicts.answer(conflict, answer)
            except CommandFailed as error:
                conflicts.answer(conflict, conflict.decline(error.message))
                output.warning(f"{conflict.key!r} is not settled: {error.message}")
            except CrdtSyncError as error:
                output.warning(f"{conflict.key!r} is not settled: {error.message}")
            else:
                output.result(settings, conflict.key, {"key": conflict.key, "token": written})
                output.flush()


def _next(settings: Settings, conflicts: Resolver) -> Conflict | None:
    try:
        return conflicts.next(settings.timeout)
    except Timeout as late:
        raise nothing_came("conflict", late) from None


def _answer(command: tuple[str, ...], conflict: Conflict, is_take: bool, limit_s: float) -> object:
    """The command's answer to a conflict."""
    shown = output.record(output.entry_fields(conflict.entries[0]))
    printed = _printed(command, f"{shown}\n".encode(), limit_s)
    if is_take:
        dots = {entry.dot for entry in conflict.entries}
        dot = printed.decode(errors="replace").strip()
        if dot not in dots:
            raise _failed(f"what {command[0]!r} printed is not the dot of one of the values")
        return conflict.take(dot)
    return ValueForm().decode(printed, f"what {command[0]!r} printed")


def _printed(command: tuple[str, ...], content: bytes, limit_s: float) -> bytes:
    try:
        done = subprocess.run(command, input=content, stdout=subprocess.PIPE, timeout=limit_s, check=False)
    except subprocess.TimeoutExpired:
        raise _failed(f"{command[0]!r} took longer than {limit_s:g} s") from None
    except OSError as error:
        raise CommandFailed(f"{command[0]!r} cannot be run: {error.strerror}", status=127, code="file") from None
    if done.returncode:
        how = f"was ended by signal {-done.returncode}" if done.returncode < 0 else f"failed with {done.returncode}"
        raise _failed(f"{command[0]!r} {how}")
    return done.stdout


def _failed(message: str) -> CommandFailed:
    return CommandFailed(message, status=1, code="command_failed")
