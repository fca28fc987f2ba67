"""``history``: what was written, by whom, having seen what, and what became of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from crdtsyncd.cli.command import Settings, state_command
from crdtsyncd.cli.connect import connect
from crdtsyncd.cli.data import json_values
from crdtsyncd.cli.errors import absent
from crdtsyncd.cli.params import KEY
from crdtsyncd.cli.show import output
from crdtsyncd.cli.show.tables import Column, show_rows
from crdtsyncd.wording import counted, rfc3339

if TYPE_CHECKING:
    from crdtsync.client import History, PastValue

COUNT_DEFAULT = 20
PREFIX_COUNT_MAX = 1000
_FIELDS = (
    "key", "field", "kind", "op", "value", "dot", "agent", "node", "time", "confidence", "meta", "ttl", "seen", "blind",
    "seen_all", "fate", "removed_by", "token", "edits", "began",
)  # fmt: skip
_WHERE_IT_IS = {"field": "map", "edits": "text", "began": "text"}


@state_command("history")
@click.argument("key", metavar="[KEY|PREFIX]", type=KEY, default="")
@click.option(
    "-n", "count", metavar="N", type=click.IntRange(1), help=f"How many at most ({COUNT_DEFAULT} by default)."
)
@click.option("--prefix", "is_prefix", is_flag=True, help="Of all keys that begin so, also where it ends without a /.")
@click.option("--lost", is_flag=True, help="Only values that were overwritten unread, or not chosen among siblings.")
def history(settings: Settings, key: str, count: int | None, is_prefix: bool, lost: bool) -> None:
    """Show what was written to a key, and what became of it.

    The newest write first: who wrote it, when, on which node, the dots of what it took the place of (SEEN), and
    what became of it (FATE) and by whom (BY):

    \b
    live: it is there, alone or as a sibling
    replaced: written over by its own author, or by one who had read it
    lost: written over by one who had not read it, or not chosen among siblings
    deleted: deleted, discarded or dropped
    expired: its time was over
    trimmed: cut off a log
    ?: it is gone, and this node does not know how

    A prefix that ends with / stands for all keys below it, and none for the whole space; then at most 1,000. SEEN is
    "-" where the author had read nothing, "?" where this node does not know, "all" where there are too many to name.
    Edits of a text by one author are one line, as are fields of a map and elements of a set or log. With --json each
    value is an object on a line. Old history is dropped in time; a line on stderr says since when it is whole. If
    nothing is known of a key, the exit status is 1.

    \b
    Examples:
      crdtsync history plan/goal -n 5
      crdtsync history plan/ --lost
    """
    is_prefix = is_prefix or not key or key.endswith("/")
    last = COUNT_DEFAULT if count is None else count
    if is_prefix and last > PREFIX_COUNT_MAX:
        raise click.UsageError(f"of a prefix at most {PREFIX_COUNT_MAX:,} are shown: give one key, or a smaller N.")
    with connect(settings) as client:
        where: dict[str, Any] = {"prefix": key} if is_prefix else {"key": key}
        found = client.history(**where, last=last, lost=lost)
    if not found and not is_prefix and not lost:
        since = "" if found.is_complete else f" since {_since(found)}"
        raise absent(f"{key!r} has no history here{since}{_instead(key)}")
    rows = map(fields_of, found) if settings.json else [_row(value, is_prefix) for value in found]
    show_rows(settings, COLUMNS, rows, "nothing was lost" if lost else "")
    if not settings.json:
        _note(found)


def _instead(key: str) -> str:
    """The command to give instead of a pattern, which is a key here."""
    parts = key.split("/")
    wild = next((at for at, part in enumerate(parts) if part in ("*", "**")), None)
    if wild is None:
        return ""
    prefix = "".join(f"{part}/" for part in parts[:wild])
    return f": it is taken for a key; for all keys below give {prefix!r}" if prefix else ": for all keys give none"


def fields_of(value: PastValue) -> dict[str, object]:
    """A value of the past as the object that is printed of it."""
    fields = {name: getattr(value, name) for name in _FIELDS if _WHERE_IT_IS.get(name, value.kind) == value.kind}
    if value.removed_by is not None:
        by = value.removed_by
        at = None if by.time is None else rfc3339(by.time)
        fields["removed_by"] = {"op": by.op, "dot": by.dot, "agent": by.agent, "node": by.node, "time": at}
    return fields | ({"is_cut": True} if value.is_cut else {})


COLUMNS = (
    *map(Column, ("TIME", "KEY", "OP", "AGENT", "NODE", "FATE", "BY", "DOT", "SEEN")),
    Column("VALUE", folds=True),
)


def _row(value: PastValue, is_prefix: bool) -> dict[str, str]:
    by = value.removed_by
    return {
        "time": "" if value.time is None else rfc3339(value.time),
        "key": value.key if is_prefix else "",
        "op": value.op,
        "agent": value.agent,
        "node": value.node,
        "fate": value.fate or "?",
        "by": "" if by is None else f"{by.agent}@{by.node} {by.op}",
        "dot": value.dot,
        "seen": _seen(value),
        "value": _value(value),
    }


def _seen(value: PastValue) -> str:
    if value.seen is None:
        return "?"
    if value.seen_all is not None:
        return "all"
    return " ".join(value.seen) or "-"


def _value(value: PastValue) -> str:
    if value.kind == "text":
        return counted(value.edits, "edit")
    if value.is_cut:
        return "(too much for one answer: ask for this key alone)"
    shown = value.value if value.field is None else {value.field: value.value}
    return json_values.dumps(shown)


def _since(found: History) -> str:
    return "some time" if found.since is None else rfc3339(found.since)


def _note(found: History) -> None:
    oldest = found[-1].time if found else None
    reaches_cut = not found.has_more or found.since is None or oldest is None or oldest < found.since
    if not found.is_complete and reaches_cut:
        output.warning(f"history on this node is whole since {_since(found)}; older values may be missing")
