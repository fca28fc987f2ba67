"""The output of commands: UTF-8 whatever the locale, JSON on one line, and times as RFC 3339."""

from __future__ import annotations

import sys
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING

from crdtsyncd import terminal
from crdtsyncd.cli.data import json_values
from crdtsyncd.cli.errors import FILE, CommandFailed
from crdtsyncd.wording import rfc3339

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from crdtsyncd.cli.command import Settings

    from crdtsync.client import Entry, Event
    from crdtsync.client.values.write_result import Written

ENTRY_FIELDS = (
    "key",
    "kind",
    "value",
    "version",
    "dot",
    "agent",
    "node",
    "time",
    "confidence",
    "meta",
    "ttl",
    "policy",
)
# A sibling's key and policy are those of its entry, and its version is covered by the entry's.
SIBLING_FIELDS = tuple(name for name in ENTRY_FIELDS if name not in ("key", "version", "policy"))
EVENT_FIELDS = ("event", "key", "kind", "value", "op", "version", "token", "agent", "node", "time")


def write(content: bytes, *, as_it_is: bool = False) -> None:
    """Print what somebody stored; buffered, so that long lists are not one system call a line.

    ``as_it_is``: on a terminal, too, where else all that cannot be seen is written out.
    """
    try:
        terminal.write(sys.stdout, content, as_it_is=as_it_is)
    except OSError as error:
        raise _broken_output(error) from None


def flush() -> None:
    """Hand on what is buffered: the reader of a stream acts on each line."""
    try:
        sys.stdout.flush()
    except OSError as error:
        raise _broken_output(error) from None


def _broken_output(error: OSError) -> Exception:
    if isinstance(error, BrokenPipeError):
        return error  # the reader has had enough
    return CommandFailed(f"the output cannot be written: {error.strerror}", status=FILE, code="file")


def line(text: str) -> None:
    """Print one line."""
    try:
        terminal.line(text)
    except OSError as error:
        raise _broken_output(error) from None


def whole(content: bytes, *, as_it_is: bool = False) -> None:
    """Print a text or bytes, and on a terminal see to it that the prompt comes on a line of its own."""
    write(content, as_it_is=as_it_is)
    if sys.stdout.isatty() and not content.endswith(b"\n"):
        write(b"\n")


def result(settings: Settings, plain: str, fields: Mapping[str, object]) -> None:
    """Print what a command has done: one word for people and scripts, or with ``--json`` all of it."""
    for part in [record(fields)] if settings.json else plain.split("\n"):
        line(part)


def lines(settings: Settings, found: Iterable[tuple[str, Mapping[str, object]]], nothing: str) -> None:
    """Print what a command has found, a line each, or with ``--json`` an object a line. Only a person is told of
    ``nothing``, beside the result: a script reads as many lines as there are.
    """
    is_empty = True
    for plain, fields in found:
        is_empty = False
        line(record(fields) if settings.json else plain)
    if is_empty and not settings.json:
        warning(nothing)


def keys(
    settings: Settings,
    marked: Mapping[str, Iterable[str]],
    left: Mapping[str, str],
    fields: Mapping[str, object],
    nothing: str,
) -> None:
    """Print what a command did to many keys, with ``--json`` as one object: the keys behind the mark that says what,
    and "!" before those that it ``left`` alone, with why.
    """
    if settings.json:
        line(record(fields))
        return
    marks = {key: mark for mark, some in marked.items() for key in some}
    found = (f"! {key}: {left[key]}" if key in left else f"{marks[key]} {key}" for key in sorted({*marks, *left}))
    lines(settings, ((plain, {}) for plain in found), nothing)


def done(settings: Settings, fields: Mapping[str, object]) -> None:
    """The same of a command that tells people nothing."""
    if settings.json:
        line(record(fields))


def warning(sentence: str) -> None:
    """Tell a person something beside the result."""
    flush()  # where both go to one place, what it is about comes first
    with suppress(OSError):  # nobody listens there
        terminal.sentence(f"crdtsync: {sentence}")


def warn_of_lost(written: Written) -> None:
    """Say that a write took values along, since its key was full."""
    lost = written.lost
    if lost:
        warning(
            f"{lost[0].key} had as many values at once as a key may have, so {len(lost)} of them went: "
            f"crdtsync history {lost[0].key} --lost shows what; crdtsync resolve settles a conflict"
        )


def record(fields: Mapping[str, object]) -> str:
    """One JSON object on one line, times in it as RFC 3339."""
    return json_values.dumps(
        {name: rfc3339(field) if isinstance(field, datetime) else field for name, field in fields.items()}
    )


def entry_fields(entry: Entry) -> dict[str, object]:
    """An entry as the object that is printed of it."""
    seen = {"seen": entry.seen} if entry.siblings else {}
    siblings = [_sibling_fields(sibling) for sibling in entry.siblings]
    return {**_fields(entry, ENTRY_FIELDS), **seen, "siblings": siblings}


def _sibling_fields(sibling: Entry) -> dict[str, object]:
    of_map = {} if sibling.field is None else {"field": sibling.field}
    return {**of_map, **_fields(sibling, SIBLING_FIELDS), "seen": sibling.seen, **_cut(sibling)}


def _cut(source: Entry | Event) -> dict[str, object]:
    return {"cut": True} if source.is_cut else {}


def shown_value(entry: Entry) -> object:
    """The value of an entry or of a sibling, which of a map is another value of one field."""
    return entry.value if entry.field is None else {entry.field: entry.value}


def event_fields(event: Event) -> dict[str, object]:
    """An event of a watch as the object that is printed of it."""
    fields = {**_fields(event, EVENT_FIELDS), **_cut(event)}
    if event.event == "conflict" or event.siblings:
        fields["seen"] = event.seen
        fields["siblings"] = [_sibling_fields(sibling) for sibling in event.siblings]
        fields["policy"] = event.policy
        if event.siblings_more:
            fields["more"] = event.siblings_more
    if event.event == "batch":
        fields["events"] = [event_fields(part) for part in event.events]
    return fields


def _fields(source: object, names: tuple[str, ...]) -> dict[str, object]:
    fields = {name: getattr(source, name) for name in names}
    moment = fields["time"]
    return {**fields, "time": rfc3339(moment) if isinstance(moment, datetime) else None}
