"""``checkpoint diff``, ``checkpoint restore`` and ``undo``: what has changed since, and going back."""

from __future__ import annotations

from difflib import unified_diff
from typing import TYPE_CHECKING, Any

import click
from crdtsyncd.cli.command import Settings, state_command
from crdtsyncd.cli.connect import connect
from crdtsyncd.cli.data import json_values
from crdtsyncd.cli.params import AT, KEY, NAMED_AT, TEXT
from crdtsyncd.cli.shared_options import concern_option
from crdtsyncd.cli.show import output
from crdtsyncd.cli.show.progress import GO_ON, Progress

from crdtsync.client.values.encoding import elements_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crdtsyncd.cli.params import WriteConcernValue

    from crdtsync.client import Difference, Entry, Restored
    from crdtsync.client.values.points import Point

prefixes_option = click.option("--prefix", "prefixes", metavar="P", type=KEY, multiple=True, help="Only these keys.")
dry_run_option = click.option("--dry-run", is_flag=True, help="Write nothing: say what would be done.")


@state_command("diff")
@click.argument("a", type=NAMED_AT)
@click.argument("b", type=NAMED_AT, required=False)
@click.option("--prefix", metavar="P", type=KEY, default="", help="Only keys that begin so.")
def diff(settings: Settings, a: Point, b: Point | None, prefix: str) -> None:
    """Show key by key what differs between two points.

    A and B are checkpoints, tokens, times or so long ago; B is now if it is left out. "+" is a key that came, "-" one
    that went, "~" one that changed: lists and objects by path, sets by element, texts line by line. With --json
    each key is an object on a line, with what it was and what it is.

    \b
    Examples:
      crdtsync checkpoint diff before-refactor
      crdtsync checkpoint diff 1h 10m --prefix plan/
    """
    with connect(settings) as client:
        found = client.diff(a, b, prefix=prefix)
    told = (pair for each in found for pair in _told(settings, each))
    output.lines(settings, told, "nothing differs: these keys say the same at both points")


@state_command("restore")
@click.argument("point", metavar="NAME", type=NAMED_AT)
@prefixes_option
@dry_run_option
@concern_option
def restore(
    settings: Settings, point: Point, prefixes: tuple[str, ...], dry_run: bool, w: WriteConcernValue | None
) -> None:
    """Write what was there at a checkpoint, and print what that changed.

    It removes what came later ("-"; "~" where the key stays) and brings back what was overwritten or deleted ("+").
    It is a write like any other: what others write meanwhile stays beside it, as siblings, and it can be undone by
    restoring a later point.
    NAME may be a token, a time or so long ago, too. Up to 1,000 keys are one change; where there are more it is
    several, and if it is cut off, do it again: it goes on with what is left. What it left alone ("!") is told with why,
    and is no failure: the exit status is 0. Keys that you may not read are not named.

    \b
    Examples:
      crdtsync checkpoint restore before-refactor --dry-run
      crdtsync checkpoint restore before-refactor --prefix plan/
    """
    with connect(settings) as client, Progress("keys restored", again="" if dry_run else GO_ON) as progress:
        done = client.restore(point, prefix=prefixes or None, dry_run=dry_run, progress=progress.advance, w=w)
    _tell(settings, done, "there is nothing to restore: these keys are as they were then")


@state_command("undo")
@click.option("--agent", "name", metavar="NAME", type=TEXT, required=True, help="Whose writes.")
@click.option("--since", metavar="AT", type=AT, required=True, help="What came after a token, a time, a checkpoint.")
@prefixes_option
@dry_run_option
@concern_option
def undo(
    settings: Settings,
    name: str,
    since: Point,
    prefixes: tuple[str, ...],
    dry_run: bool,
    w: WriteConcernValue | None,
) -> None:
    """Take back what one agent did.

    Each key that the agent has written or deleted since then becomes what it was; those that somebody else has written
    since are left alone ("!"), and it says who did.

    \b
    Example:
      crdtsync undo --agent critic --since 10m --dry-run
    """
    with connect(settings) as client, Progress("keys undone", again="" if dry_run else GO_ON) as progress:
        done = client.undo(name, since, prefix=prefixes or None, dry_run=dry_run, progress=progress.advance, w=w)
    _tell(settings, done, f"there is nothing to undo: nothing that {name!r} has done since then is still there")


def _tell(settings: Settings, done: Restored, nothing: str) -> None:
    marked = {"-": done.removed, "~": done.changed, "+": done.restored}
    lists = {"restored": done.restored, "removed": done.removed, "changed": done.changed}
    output.keys(settings, marked, done.left, {**lists, "left": done.left, "token": done.token}, nothing)


def _told(settings: Settings, each: Difference) -> Iterator[tuple[str, dict[str, object]]]:
    if settings.json:
        yield "", {"key": each.key, "before": _fields(each.before), "after": _fields(each.after)}
    else:
        yield from ((line, {}) for line in _lines(each))


def _fields(entry: Entry | None) -> dict[str, object] | None:
    return None if entry is None else output.entry_fields(entry)


def _lines(found: Difference) -> Iterator[str]:
    """The lines of one key that differs."""
    old, new = found.before, found.after
    if old is None or new is None:
        yield f"{'+' if old is None else '-'} {found.key} {_values(new or old)}"
    elif old.kind == new.kind == "text" and isinstance(old.value, str) and isinstance(new.value, str):
        yield f"~ {found.key}"
        lines = unified_diff(str(old.value).splitlines(), str(new.value).splitlines(), lineterm="", n=1)
        yield from (f"    {line}" for number, line in enumerate(lines) if number > 1)
    elif old.siblings or new.siblings or old.kind != new.kind or not isinstance(old.value, dict | list):
        yield f"~ {found.key} {_values(old)} -> {_values(new)}"
    elif old.kind == "set":
        yield f"~ {found.key}"
        yield from _elements(old.value, new.value)
    else:
        yield f"~ {found.key}"
        for path, before, after in _paths("", old.value, new.value):
            yield f"    {path} {before} -> {after}"


def _elements(old: Any, new: Any) -> Iterator[str]:  # Any: lists of JSON
    """The elements of a set that went, and those that came."""
    before, after = elements_of(old), elements_of(new)
    yield from (f"    - {_shown(before[one])}" for one in before if one not in after)
    yield from (f"    + {_shown(after[one])}" for one in after if one not in before)


def _values(entry: Entry | None) -> str:
    assert entry is not None
    values = [output.shown_value(one) for one in (entry, *entry.siblings)]
    return " | ".join(map(json_values.dumps, values))


def _paths(path: str, old: Any, new: Any) -> Iterator[tuple[str, str, str]]:  # Any: JSON
    """Where two values differ, by path, with what is there; "(none)" where nothing is."""
    if isinstance(old, dict) and isinstance(new, dict):
        for name in sorted({*old, *new}):
            yield from _paths(f"{path}.{name}", old.get(name, _NONE), new.get(name, _NONE))
    elif isinstance(old, list) and isinstance(new, list):
        for at in range(max(len(old), len(new))):
            ends = (some[at] if at < len(some) else _NONE for some in (old, new))
            yield from _paths(f"{path}[{at}]", *ends)
    elif old != new or type(old) is not type(new):
        yield path or ".", _shown(old), _shown(new)


_NONE = object()


def _shown(value: Any) -> str:  # Any: JSON
    return "(none)" if value is _NONE else json_values.dumps(value)
