"""The changes that calls of tools make in files, as a diff.

An agent's call says what it takes out and what it puts in, or it is a patch, under names that differ by agent:

    Edit {"file_path": "a.py", "old_string": "x = 1", "new_string": "x = 2"}   →   --- a.py
                                                                                   -x = 1
                                                                                   +x = 2
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from difflib import ndiff

from crdtsync.sessions.conversation.record import Call

_TOOL = re.compile(r"edit|write|replace|create", re.IGNORECASE)
_PATHS = ("file_path", "filePath", "path")
_OLD = ("old_string", "oldString", "old_str")
_NEW = ("new_string", "newString", "new_str", "content", "file_text")
_PATCH = re.compile(r"^\*\*\* Begin Patch$\n(.*?)^\*\*\* End Patch$", re.MULTILINE | re.DOTALL)
_COMPARED_LINES_MAX = 200


def diff_of(call: Call) -> list[str]:
    """The lines of the diff, after one that names each file; none if the call edits no file in a way known here."""
    found = [line for text in call.arguments.values() if isinstance(text, str)
             for patch in _PATCH.findall(text) for line in patch.splitlines()]  # fmt: skip
    path = _first(call.arguments, _PATHS)
    if found or not path or not _TOOL.search(call.name):
        return found
    several = call.arguments.get("edits")
    edits = [one for one in several if isinstance(one, Mapping)] if isinstance(several, list) else [call.arguments]
    changes = [line for one in edits for line in _changed(_first(one, _OLD), _first(one, _NEW))]
    return [f"--- {path}", *changes] if changes else []


def _changed(old: str, new: str) -> Iterator[str]:
    one, two = old.splitlines(), new.splitlines()
    if max(len(one), len(two)) > _COMPARED_LINES_MAX or not one:  # comparing takes long
        yield from (f"-{line}" for line in one)
        yield from (f"+{line}" for line in two)
        return
    for line in ndiff(one, two):
        if line[0] in "+- ":
            yield f"{line[0]}{line[2:]}"


def _first(arguments: Mapping[str, object], names: tuple[str, ...]) -> str:
    return next((text for text in map(arguments.get, names) if isinstance(text, str)), "")
