"""A client's file of hooks with ours in it, or without them; nothing else in it changes.

Such a file says under ``hooks``, for each event, a list of groups, and under ``hooks`` of a group what is run.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from crdtsync.errors import InvalidEncoding, InvalidRequest
from crdtsync.mcp.install import jsonc

EVENTS = ("SessionStart", "UserPromptSubmit", "Stop", "SessionEnd")
_TIMEOUT_S = 30
_OURS = " session hook --from "


def with_hooks(text: str, path: Path, command: str) -> str:
    """``text``, the content of ``path``, with ``command`` run at each event of ours; equal if that is there already.

    Raises :class:`~crdtsync.errors.InvalidRequest` if the file does not hold what its name says.
    """
    entry = {"type": "command", "command": command, "timeout": _TIMEOUT_S}
    if not text.strip():
        return json.dumps({"hooks": {event: [{"hooks": [entry]}] for event in EVENTS}}, indent=2) + "\n"
    try:
        for event in EVENTS:
            own = next(_ours(text, event), None)
            groups = jsonc.at(text, ("hooks", event))
            if own is not None:
                place = jsonc.at(text, own[:-1])
                assert place is not None
                text = jsonc.put(text, place, own[-1], entry)
            elif groups is None:
                text = jsonc.put_at(text, ("hooks", event), [{"hooks": [entry]}])
            elif not groups.is_list:
                raise InvalidEncoding(f"the hooks of {event} are no list")
            else:
                text = jsonc.put(text, groups, "", {"hooks": [entry]})
    except InvalidEncoding as error:
        message = f"{path} cannot be changed: {error}; mend it, or add the hooks by hand (--dry-run shows what)"
        raise InvalidRequest(message) from error
    return text


def without_hooks(text: str, path: Path) -> str:
    """``text`` without our hooks, and without lists and groups that would be empty then."""
    try:
        for event in reversed(EVENTS):
            while text.strip() and (own := next(_ours(text, event), None)) is not None:
                text = jsonc.take_at(text, own)
    except InvalidEncoding as error:
        raise InvalidRequest(f"{path} cannot be changed: {error}; mend it, or take the hooks out by hand") from error
    return text


def has_hooks(text: str) -> bool:
    """Whether ours are there; False for what cannot be read."""
    try:
        return any(next(_ours(text, event), None) for event in EVENTS)
    except InvalidEncoding:
        return False


def _ours(text: str, event: str) -> Iterator[tuple[str, ...]]:
    """Where in ``text`` a command of ours is run at ``event``."""
    groups = jsonc.at(text, ("hooks", event))
    for group in groups.members if groups else ():
        path = ("hooks", event, group.name, "hooks")
        commands = jsonc.at(text, path)
        for one in commands.members if commands else ():
            if _OURS in text[one.value : one.end]:
                yield (*path, one.name)
