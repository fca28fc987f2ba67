"""Tools that agents have in common, each under its own name.

The shell is the one that all have with the same meaning. Other calls stay calls under the names that they had, so that
no result loses its call; the note before the conversation says that these tools are not the reader's.
"""

from __future__ import annotations

import shlex
from typing import Any

from crdtsync.sessions.agents.agent import CLAUDE_CODE, CODEX, GEMINI_CLI, OPENCODE

_SHELLS = {
    CLAUDE_CODE: ("Bash", "command"),
    CODEX: ("exec_command", "cmd"),
    GEMINI_CLI: ("run_shell_command", "command"),
    OPENCODE: ("bash", "command"),
}
_NAMES = {*(name for name, _ in _SHELLS.values()), "shell", "shell_command", "local_shell"}


def translated(name: str, arguments: dict[str, Any], to: str) -> tuple[str, dict[str, Any]]:
    """A call as the agent ``to`` would make it; as it is, where that has no such tool."""
    own, argument = _SHELLS[to]
    command = _command(arguments) if name in _NAMES and name != own else None
    return (name, arguments) if command is None else (own, {argument: command})


def own_name(name: str, to: str) -> str | None:
    """What the agent ``to`` calls the tool ``name``; None: it has none."""
    if name in _NAMES:
        return _SHELLS[to][0]
    return name if name.startswith("mcp__") else None


def _command(arguments: dict[str, Any]) -> str | None:
    given = arguments.get("command", arguments.get("cmd"))
    if isinstance(given, list) and all(isinstance(word, str) for word in given):
        if len(given) == 3 and given[1] in ("-lc", "-c"):
            return str(given[2])
        return shlex.join(given)
    return given if isinstance(given, str) else None
