"""The outcome for a session of a coding agent, for people by lines or as objects."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crdtsyncd.cli.show import output
from crdtsyncd.wording import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from crdtsyncd.cli.command import Settings

    from crdtsync.sessions import HandedOver, Loaded, Saved, SaveResult


def print_saved(settings: Settings, result: SaveResult) -> None:
    """Print what was saved of a session, and of those that it needs first."""
    for parent in result.needed:
        print_saved(settings, parent)
    saved = result.saved
    for name, reason in result.left_out.items():
        output.warning(f"{name} was not saved: it {reason}")
    for name, size in result.shorter.items():
        message = f"{name} is shorter here than what was saved, which stays ({size:,} bytes)"
        output.warning(f"{message}: crdtsync session load {saved.id} goes on with it")
    if saved.redacted is None:
        secrets = f"; secrets were not looked for: crdtsync session drop {saved.id} takes them out again"
    elif saved.redacted:
        secrets = f"; replaced: {_counts(saved.redacted)}"
    else:
        secrets = "; no secrets found"
    said = f"{saved.id}: {counted(result.new_lines, 'new line')}, {result.new_bytes:,} bytes{secrets}"
    fields = {**saved_fields(saved), "new_lines": result.new_lines, "new_bytes": result.new_bytes}
    output.result(settings, said, {**fields, "left_out": result.left_out, "shorter": result.shorter})


def print_loaded(settings: Settings, loaded: Loaded, *, dry_run: bool) -> None:
    """Where a session was put, and what resumes it."""
    if settings.json:
        fields = {"id": loaded.saved.id, "agent": loaded.saved.agent, "cwd": loaded.cwd, "command": loaded.command}
        more = {"rewritten": _paths(loaded.rewritten), "redacted": loaded.redacted, "other_ends": loaded.other_ends}
        output.line(output.record({**fields, "files": loaded.files, **more}))
        return
    for path, state in loaded.files.items():
        output.line(f"{path}: {_state(state, dry_run=dry_run)}")
    _print_paths(loaded.rewritten)
    if loaded.redacted:
        output.line(f"secrets that are marks now: {_counts(loaded.redacted)}")
    if loaded.other_ends:
        message = f"the session went on in {loaded.other_ends + 1} ways; this is the one that was saved last, and "
        output.warning(f"{message}crdtsync session branch {loaded.saved.id} --way 2 makes a session of the one before")
    if loaded.saved.agent == "codex" and not loaded.saved.version:  # its lines are of the summer of 2025, or before
        branch = f"crdtsync session branch {loaded.saved.id} makes one that it resumes"
        output.warning(f"a newer Codex does not read a session as old as this: {branch}")
    if loaded.saved.commit not in ("", loaded.commit):
        here = f"at commit {loaded.commit[:12]}" if loaded.commit else "at no commit"
        output.warning(f"the session was at commit {loaded.saved.commit[:12]}, and {loaded.cwd} is {here}")
    _print_command(loaded.cwd, loaded.command, is_there=Path(loaded.cwd).is_dir())


def print_handed_over(settings: Settings, done: HandedOver, *, dry_run: bool = False, **_: object) -> None:
    """The same of a session that was made from another one, with what could not be carried."""
    if settings.json:
        fields = {field.name: getattr(done, field.name) for field in dataclasses.fields(done)}
        output.line(output.record({**fields, "saved": done.saved.id, "rewritten": _paths(done.rewritten)}))
        return
    output.line(f"{done.path}: {_state(done.state, dry_run=dry_run)}, {counted(done.turns, 'turn')}")
    _print_paths(done.rewritten)
    for loss in done.lost:
        output.line(f"not carried: {loss}")
    _print_command(done.cwd, done.command, is_there=done.is_there)


def print_excluded(settings: Settings, turns: list[int]) -> None:
    """Which turns are left out."""
    from crdtsync.sessions.conversation.choose import named

    output.result(settings, f"excluded: {named(turns) or 'nothing'}", {"excluded": turns})


def print_texts(texts: Iterable[str]) -> None:
    """Some texts, each on lines of its own."""
    for text in texts:
        output.whole(f"{text}\n".encode("utf-8", "replace"))


def saved_fields(saved: Saved) -> dict[str, Any]:
    """A saved session as the object that is printed of it."""
    fields = {field.name: getattr(saved, field.name) for field in dataclasses.fields(saved)}
    return {**fields, "files": {name: file.bytes for name, file in saved.files.items()}}


def _print_command(cwd: str, command: str, *, is_there: bool) -> None:
    if not is_there:
        output.warning(f"{cwd} is not there: get your project there first, or name another directory with --in")
    output.line(command)


def _paths(rewritten: Mapping[tuple[str, str], int]) -> list[dict[str, object]]:
    return [{"old": old, "new": new, "times": times} for (old, new), times in sorted(rewritten.items())]


def _print_paths(rewritten: Mapping[tuple[str, str], int]) -> None:
    for (old, new), times in sorted(rewritten.items()):
        output.line(f"  {old} → {new} ({times}×)")


def _state(state: str, *, dry_run: bool) -> str:
    return f"{_STATES[state]}{' (not written: --dry-run)' if dry_run and state in ('new', 'grown') else ''}"


_STATES = {"new": "new", "same": "is there already", "grown": "gone on with", "ahead": "has more than was saved"}


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))
