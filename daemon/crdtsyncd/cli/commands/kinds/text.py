"""``text``: keys of kind text, printed and edited by position."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Any

import click
from crdtsyncd.cli.command import Settings, state_command
from crdtsyncd.cli.connect import connect
from crdtsyncd.cli.data import ndjson
from crdtsyncd.cli.errors import absent
from crdtsyncd.cli.params import FILE, TEXT, WriteConcernValue
from crdtsyncd.cli.shared_options import conditions_option, key_argument, read_text
from crdtsyncd.cli.show import output

from crdtsync.errors import InvalidRequest, KindMismatch

if TYPE_CHECKING:
    from crdtsync.client import Client, Entry, Written

_POSITION = click.IntRange(0)


@state_command("text")
@key_argument
@click.option("--set", "file", metavar="FILE", type=FILE, help="Make it what FILE holds, as few edits.")
@click.option("--insert", metavar="POS STR", type=(_POSITION, TEXT), help="Insert STR before position POS.")
@click.option("--delete", metavar="POS LEN", type=(_POSITION, _POSITION), help="Delete LEN characters from POS on.")
@click.option("--compact", is_flag=True, help="Store it anew, without the past that its edits have left behind.")
@conditions_option
def text(
    settings: Settings,
    key: str,
    file: IO[bytes] | None,
    insert: tuple[int, str] | None,
    delete: tuple[int, int] | None,
    compact: bool,
    **conditions: Any,
) -> None:
    """Print a text, or edit it and print the token.

    Edits of several authors at once are merged, character by character. Positions count Unicode characters from
    0. "-" as FILE is stdin; the text is created by the first edit.

    \b
    Examples:
      crdtsync text notes --set notes.md
      crdtsync text notes --insert 0 'Title: '
    """
    edits = [edit for edit in (file, insert, delete, compact or None) if edit is not None]
    if len(edits) > 1:
        raise click.UsageError("--set, --insert, --delete and --compact exclude each other: one edit at a time.")
    if (conditions["if_version"] is not None or conditions["if_absent"]) and not (file or insert or delete):
        raise click.UsageError("--if-version and --if-absent go with --set, --insert and --delete.")
    report: dict[str, object] = {}
    with connect(settings) as client:
        document = client.text(key)
        if not edits:
            _print(settings, client.entry(key), key)
            return
        if file is not None:
            token = document.set(read_text(file.read(), ndjson.name_of(file)), **conditions)
        elif insert is not None:
            token = document.insert(*insert, **conditions)
        elif compact:
            token = _compact(client, key, conditions["w"])
            report = {"bytes_before": token.bytes_before, "bytes_after": token.bytes_after}
        else:
            assert delete is not None
            token = document.delete(*delete, if_version=conditions["if_version"], w=conditions["w"])
    output.result(settings, token, {"token": token, **report})


def _compact(client: Client, key: str, w: WriteConcernValue | None) -> Written:
    try:
        return client.text(key).compact(w=w)
    except InvalidRequest:
        if client.entry(key) is None:
            raise absent(f"{key!r} does not exist") from None
        raise


def _print(settings: Settings, entry: Entry | None, key: str) -> None:
    if entry is None:
        raise absent(f"{key!r} does not exist")
    if entry.kind != "text":
        raise KindMismatch(f"{key!r} is a {entry.kind}, not a text: read it with crdtsync get")
    if settings.json:
        output.line(output.record(output.entry_fields(entry)))
    else:
        output.whole(entry.value.encode())
