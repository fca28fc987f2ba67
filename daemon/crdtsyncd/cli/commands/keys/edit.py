"""``edit``: a value in the user's editor; whatever happens to the key meanwhile, the user's text is never lost."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Self

import click
from crdtsyncd import terminal
from crdtsyncd.cli.command import Settings, state_command
from crdtsyncd.cli.connect import connect
from crdtsyncd.cli.data import json_values
from crdtsyncd.cli.data.value_form import NOTHING, ValueForm
from crdtsyncd.cli.errors import ABSENT, NOT_FOUND, CommandFailed
from crdtsyncd.cli.shared_options import key_argument
from crdtsyncd.cli.show import output

from crdtsync.errors import KindMismatch

if TYPE_CHECKING:
    from crdtsync.client import Client

ATTEMPTS_MAX = 1000  # each one is a person at work; this only has to end some day


@state_command("edit")
@key_argument
@click.option("--string", "as_string", is_flag=True, help="The value is a string: edit it as plain text.")
def edit(settings: Settings, key: str, as_string: bool) -> None:
    """Edit a value in $VISUAL or $EDITOR.

    What is saved is written only if nothing else was written meanwhile; otherwise you are shown both and asked. A
    file that is left as it was writes nothing. Whenever your text could not be written, the file is kept and
    named.

    \b
    Example:
      EDITOR=nano crdtsync edit plan/goal
    """
    sitting = EditSession(key, ValueForm(as_string=as_string, indent=2))
    with sitting, connect(settings) as client:
        _check_kind(client, key)
        token = client.update(key, sitting.edited, default=NOTHING, attempts=ATTEMPTS_MAX)
        output.result(settings, token, {"token": token})


def _check_kind(client: Client, key: str) -> None:
    """Before the user works in vain: only registers are written as a whole."""
    entry = client.entry(key)
    if entry is not None and entry.kind != "register":
        raise KindMismatch(f"{key!r} is a {entry.kind}, not a register: edit works on whole values")


class Unchanged(click.exceptions.Exit):
    """The user left the value as it was."""

    def __init__(self) -> None:
        super().__init__(0)


class EditSession:
    """A person editing one value: holds the file, removes it when its content is safe, else says where it is."""

    def __init__(self, key: str, form: ValueForm) -> None:
        self._key = key
        self._form = form
        self._directory = Path(tempfile.mkdtemp(prefix="crdtsync-"))
        name = "".join(c if c.isalnum() or c in "._-" else "_" for c in key)[-60:]
        self._mine = self._directory / f"{name}{form.suffix}"
        self._theirs = self._directory / f"{name}.theirs{form.suffix}"
        self._shown = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        untouched = not self._mine.exists() or self._mine.read_bytes() == self._shown
        if error is None or isinstance(error, Unchanged) or untouched:
            shutil.rmtree(self._directory, ignore_errors=True)
        else:
            output.warning(f"your text is kept in {self._mine}")

    def edited(self, value: json_values.Value) -> json_values.Value:
        """The user's version of a value; called again with the newer one when something came between."""
        if self._mine.exists():
            self._ask_about(value)
        else:
            self._shown = self._form.encode(value)
            self._mine.write_bytes(self._shown)
        while True:
            self._open()
            content = self._mine.read_bytes()
            if content == self._shown:
                output.warning("nothing was changed, so nothing was written")
                raise Unchanged
            try:
                return self._form.decode(content, "what you saved")
            except CommandFailed as error:
                self._pause(f"{error.message}", error)

    def _ask_about(self, value: json_values.Value) -> None:
        self._theirs.write_bytes(self._form.encode(value))
        self._shown = b"\0"  # to save it once more as it is now means something: mine, not theirs
        message = (
            f"{self._key!r} was changed meanwhile, so yours was not written; what it holds now is in {self._theirs}"
        )
        self._pause(message, CommandFailed(message, status=ABSENT, code="version_mismatch"))

    def _pause(self, message: str, error: CommandFailed) -> None:
        """Wait for the user to read the message before the editor covers it; without a user, give up."""
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise error
        output.warning(message)
        terminal.write(sys.stderr, b"Press Enter to edit yours and save it, Ctrl-C to stop. ")
        sys.stderr.flush()
        if not sys.stdin.readline():
            raise error

    def _open(self) -> None:
        editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
        try:
            done = subprocess.run([*shlex.split(editor), str(self._mine)], check=False)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            message = f"the editor {editor!r} cannot be run ({reason}); set VISUAL or EDITOR"
            raise CommandFailed(message, status=NOT_FOUND, code="command_failed") from None
        if done.returncode != 0:
            message = f"the editor ended with status {done.returncode}; nothing was written"
            raise CommandFailed(message, status=abs(done.returncode), code="command_failed")
