"""``blob put`` and ``blob get``: bytes of any length."""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click
from crdtsyncd.cli.command import Settings, StateGroup
from crdtsyncd.cli.connect import connect, past
from crdtsyncd.cli.errors import absent
from crdtsyncd.cli.params import TEXT, TTL
from crdtsyncd.cli.shared_options import at_option, conditions_option, file_argument, key_argument
from crdtsyncd.cli.show import output
from crdtsyncd.cli.show.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Callable

    from crdtsync.client import Blob
    from crdtsync.client.values.points import Point

PATH = click.Path(path_type=Path)
FILE_MODE = 0o666
"""Less what the umask takes away, as for any file."""


@click.group("blob", cls=StateGroup)
def blob() -> None:
    """Bytes of any length: files, pictures, models."""


@blob.command("put")
@key_argument
@file_argument("file")
@click.option("--media-type", metavar="TYPE", type=TEXT, help="What the bytes are, such as application/pdf.")
@click.option("--ttl", metavar="DURATION", type=TTL, help="Forget it after this time, such as 30s or 7d.")
@conditions_option
def put(
    settings: Settings,
    key: str,
    file: IO[bytes],
    media_type: str | None,
    ttl: float | None,
    **conditions: Any,
) -> None:
    """Store the bytes of a file, and print the token.

    "-" as FILE is stdin. On every node the whole blob is to be seen, or nothing of it. If a put is cut off, run it
    again: what is stored on this host is not sent again. "crdtsync get KEY" shows size and hash, "del KEY" deletes it.

    \b
    Examples:
      crdtsync blob put reports/q3 q3.pdf --media-type application/pdf
      tar c src | crdtsync blob put backups/src -
    """
    with connect(settings) as client, Progress("stored") as progress:
        written = client.put_blob(
            key,
            file,
            media_type=media_type,
            ttl=ttl,
            progress=lambda done, total: progress.show_bytes(done, done if total is None else total),
            **conditions,
        )
    fields = {"token": written, "version": written.version, "siblings": written.siblings, "nodes": written.nodes}
    output.result(settings, written, fields)
    output.warn_of_lost(written)


@blob.command("get")
@key_argument
@click.option("-o", "--output", "path", metavar="FILE", type=PATH, help="Write to FILE.")
@at_option
def get(settings: Settings, key: str, path: Path | None, at: Point | None) -> None:
    """Print the bytes of a blob, or write them to a file, which appears when it is whole.

    \b
    Examples:
      crdtsync blob get reports/q3 -o q3.pdf
      crdtsync blob get backups/src | tar x
    """
    from crdtsync.client.operations.backup_file import open_new

    if path is not None and path.exists() and not path.is_file():
        raise click.UsageError(f"{path} is no file: leave -o away, and send what is printed there")
    with connect(settings) as attached, Progress("read") as progress:
        found = past(attached, at).get_blob(key)
        if found is None:
            raise absent(f"{key!r} {'does not exist' if at is None else 'did not exist then'}")
        if path is None:
            _copy(found, lambda data: output.write(data, as_it_is=True), progress)
            return
        partial = path.with_name(f"{path.name}.partial")
        file = os.fdopen(open_new(partial, FILE_MODE), "wb")
        try:
            with file:
                _copy(found, file.write, progress)
                file.flush()
                os.fsync(file.fileno())
            partial.replace(path)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
    entry = found.entry
    fields = {"file": str(path), "size": found.size, "sha256": found.sha256, "media_type": found.media_type}
    output.result(settings, f"wrote {path}: {found.size:,} bytes by {entry.agent}", {**fields, "agent": entry.agent})


def _copy(source: Blob, write: Callable[[bytes], object], progress: Progress) -> None:
    from crdtsync.wire.blobs import PART_BYTES

    while data := source.read(PART_BYTES):
        write(data)
        progress.show_bytes(source.tell(), source.size)
