"""``import``: keys from NDJSON, as export prints it."""

from __future__ import annotations

import shutil
import tempfile
from typing import IO

import click
from crdtsyncd.cli.command import Settings, state_command
from crdtsyncd.cli.connect import connect
from crdtsyncd.cli.data import ndjson
from crdtsyncd.cli.data.export_records import records_of
from crdtsyncd.cli.data.importer import Importer
from crdtsyncd.cli.data.kinds import BLOB_PART
from crdtsyncd.cli.errors import CommandFailed
from crdtsyncd.cli.shared_options import file_argument
from crdtsyncd.cli.show import output
from crdtsyncd.cli.show.progress import Progress

from crdtsync.errors import CrdtSyncError

POLICIES = ("skip", "set", "sibling")
OUTCOMES = ("created", "replaced", "added", "unchanged", "skipped")


policy_option = click.option(
    "--on-conflict",
    "policy",
    type=click.Choice(POLICIES),
    default="skip",
    show_default=True,
    help="What to do with a key that exists and holds something else: leave it, replace it, or keep both.",
)


@state_command("import")
@file_argument("file")
@policy_option
def import_(settings: Settings, file: IO[bytes], policy: str) -> None:
    """Write the keys that crdtsync export printed.

    "-" as FILE is stdin. The whole file is checked first: with a bad line in it nothing is written. Then keys are
    written in batches, a register with all its siblings at once. If a key is refused, the message says up to which
    line the import is done. When it is repeated, keys that hold the same already are left alone. Reserved keys are not
    imported. A key that holds something else becomes, with --on-conflict:

    \b
    skip: what it was
    set: what the file says, by the smallest change of that kind
    sibling: both; a text stays, and so does a key of another kind

    With "sibling" a register and the fields of a map get siblings, a log gets the elements appended, a set gets them
    added, and a counter counts the number on top.

    \b
    Example:
      crdtsync import plan.ndjson --on-conflict sibling
    """
    name = ndjson.name_of(file)
    with _rewindable(file) as source, connect(settings) as client:
        total = _checked(source, name)
        source.seek(0)
        importer = Importer(client, policy)
        done = 0
        with Progress("keys imported", total) as progress:
            try:
                for record in importer.write(records_of(ndjson.lines(source, name))):
                    done = record.line.number
                    progress.advance(sum(importer.counts.values()) - progress.count)
            except CrdtSyncError as error:
                error.message = f"{name}: {error.message}; {_so_far(done)}"
                raise
    report(settings, importer)


def _checked(source: IO[bytes], name: str) -> int:
    """How many records there are; an error if one of them is not right."""
    try:
        return sum(record.kind != BLOB_PART for record in records_of(ndjson.lines(source, name)))
    except CommandFailed as error:
        error.message += f"; {_so_far(0)}"
        raise


def _so_far(line_number: int) -> str:
    if line_number == 0:
        return "nothing was imported"
    return f"lines 1 to {line_number} are imported, the rest is not"


def report(settings: Settings, importer: Importer, *, dry_run: bool = False, left_out: int = 0) -> None:
    """Say what has become of the keys, or would."""
    counts = {outcome: importer.counts[outcome] for outcome in OUTCOMES} | ({"left_out": left_out} if left_out else {})
    plain = ", ".join(f"{count:,} {outcome.replace('_', ' ')}" for outcome, count in counts.items() if count)
    output.result(settings, (plain or "nothing to import") + (", if it were done" if dry_run else ""), counts)


def _rewindable(file: IO[bytes]) -> IO[bytes]:
    """The file itself, or a copy of a stream: it is read twice."""
    if file.seekable():
        return file
    copy = tempfile.TemporaryFile()  # noqa: SIM115  # the caller closes it
    shutil.copyfileobj(file, copy)
    copy.seek(0)
    return copy
