"""How a command ends when it cannot be done: exception → exit status, error code and one sentence on stderr."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import click
from crdtsyncd import terminal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from crdtsync.errors import CrdtSyncError, Timeout

ABSENT = 1
USAGE = 2
REFUSED = 4
BUG = 70  # EX_SOFTWARE
FILE = 74  # EX_IOERR
NOT_EXECUTABLE = 126  # as a shell has it, for a command that was to be run
NOT_FOUND = 127
INTERRUPTED = 130  # 128 + SIGINT
PIPE_CLOSED = 141  # 128 + SIGPIPE

STATUSES = {
    0: "done",
    ABSENT: "the key does not exist, or a condition was false",
    USAGE: "the command line is wrong",
    3: "no daemon answers, or this user has no right to its socket; the message names the group to join",
    REFUSED: "refused: kind, rights, size, value",
    5: "timeout; a write that was only waited for (`-w`) is done on this host, and the message has its token and who "
    "holds it; with `--after`, what this host lacks",
    6: "the key has to be resolved first",
    BUG: "a bug; `CRDTSYNC_DEBUG=1` shows where",
    FILE: "a file or stdout cannot be read or written",
    NOT_EXECUTABLE: "the command that was to be run (`update`, `edit`, `claim`, `work`, `on`) cannot be",
    NOT_FOUND: "that command is not found",
    INTERRUPTED: "ended by Ctrl-C, also `watch` and `log -f`; `work` and `on` end with 0",
    PIPE_CLOSED: "the reader of stdout went away, as in `crdtsync watch | head -1`",
}
"""The meaning of each exit status, as the page of the command line says it; errors of the daemon have 2 to 6."""

OWN = {
    "absent": (ABSENT, "The key does not exist: check its name with `crdtsync ls`"),
    "failed": (
        ABSENT,
        "From `work --drain`: tasks have failed, or wait for some that can never be done; `crdtsync tasks` says why",
    ),
    "misfit": (
        ABSENT,
        "From `schema check` and `schema migrate`: values do not fit their schema; they are listed before",
    ),
    "not_all_merged": (
        REFUSED,
        "`--merge` did not bring along all: [import the files](../how-to/cluster.md#joining) that the message names",
    ),
    "usage": (USAGE, "Correct the command line; `crdtsync COMMAND --help` shows an example"),
    "invalid_value": (
        REFUSED,
        "A file, stdin or a command's output holds what cannot be a value; the message names file and line",
    ),
    "command_failed": (None, "The command or editor that was run for you failed; nothing was written"),
    "internal": (BUG, "A bug: report it with what `CRDTSYNC_DEBUG=1` prints"),
    "file": (FILE, "A local file, or stdout, cannot be read or written"),
    "damaged": (FILE, "From `checkpoint verify`: this host's disk has spoilt what is listed before"),
}
"""The errors that never cross the socket: by code the exit status (None: that of the command that was run) and meaning,
as the page of errors says it.
"""


class CommandFailed(Exception):
    """A command's own way of saying that it could not be done."""

    def __init__(self, message: str, *, status: int, code: str) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.code = code


def absent(what: str) -> CommandFailed:
    """The error if something that was asked for is not there."""
    return CommandFailed(what, status=ABSENT, code="absent")


def refused_value(message: str) -> CommandFailed:
    """Something other than the command line gave a value that cannot be stored."""
    return CommandFailed(message, status=REFUSED, code="invalid_value")


@dataclass(frozen=True, slots=True)
class Ending:
    """Exit status, error code, sentence, and ``details`` for programs; without a sentence the command ends quietly."""

    status: int
    code: str
    message: str = ""
    details: Mapping[str, object] = field(default_factory=dict)


def report(error: BaseException, *, as_json: bool) -> int:
    """Say on stderr what went wrong and return the exit status."""
    if os.environ.get("CRDTSYNC_DEBUG") == "1":
        import traceback

        terminal.write(sys.stderr, "".join(traceback.format_exception(error)).encode(errors="backslashreplace"))
    ending = ending_of(error)
    if ending.message:
        _say(ending, as_json=as_json)
    return ending.status


def ending_of(error: BaseException) -> Ending:
    """The meaning of an exception for the user."""
    from crdtsync.errors import CrdtSyncError, Timeout

    # The first that fits; a refused socket is an OSError too, and so on.
    table: tuple[tuple[type[BaseException], Callable[..., Ending]], ...] = (
        (CommandFailed, lambda e: Ending(e.status, e.code, e.message)),
        (Timeout, _timeout),
        (CrdtSyncError, lambda e: Ending(e.exit_status, e.code, e.message, _details(e))),
        (click.UsageError, _usage),
        (click.ClickException, lambda e: Ending(USAGE, "usage", e.format_message())),
        (click.Abort, lambda _: Ending(INTERRUPTED, "interrupted")),
        (KeyboardInterrupt, lambda _: Ending(INTERRUPTED, "interrupted")),
        (BrokenPipeError, lambda _: Ending(PIPE_CLOSED, "pipe_closed")),
        (OSError, _file),
        (BaseException, _bug),
    )
    return next(make(error) for kind, make in table if isinstance(error, kind))


def _timeout(error: Timeout) -> Ending:
    done = f"; the write itself is done, its token is {error.token}" if error.token and error.held_by else ""
    return Ending(error.exit_status, error.code, error.message + done, _details(error))


DETAILS = (
    "key", "current", "token", "held_by", "missing", "members", "index", "op", "kind", "path",
    "who", "right", "space", "quota", "limit", "retry_ms", "rule", "pattern", "agent", "node", "fence", "left_ms",
)  # fmt: skip
"""Details that an error of the protocol may have beside its sentence."""


def _details(error: CrdtSyncError) -> dict[str, object]:
    from crdtsync.client import Entry

    found = {name: error.details[name] for name in DETAILS if name in error.details}
    current = found.get("current")
    if isinstance(current, Entry):
        from crdtsyncd.cli.show import output

        found["current"] = output.entry_fields(current)
    return found


def _usage(error: click.UsageError) -> Ending:
    hint = f"; see {error.ctx.command_path} --help" if error.ctx is not None else ""
    return Ending(USAGE, "usage", error.format_message().removesuffix(".") + hint)


def _file(error: OSError) -> Ending:
    reason = error.strerror or str(error) or type(error).__name__
    name = f"{error.filename}: " if error.filename else ""
    return Ending(FILE, "file", f"{name}{reason}")


def _bug(error: BaseException) -> Ending:
    what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    sentence = f"This is a bug in crdtsync ({what}); please report it with what CRDTSYNC_DEBUG=1 prints."
    return Ending(BUG, "internal", sentence)


def _say(ending: Ending, *, as_json: bool) -> None:
    if as_json:
        from crdtsyncd.cli.data import json_values

        text = json_values.dumps({"error": {"code": ending.code, "message": ending.message, **ending.details}})
    else:
        text = f"crdtsync: {' '.join(ending.message.split()).removesuffix('.')}"
    try:
        terminal.sentence(text)
    except (OSError, ValueError, AttributeError):
        # Nobody is listening on stderr; the exit status still tells.
        return
