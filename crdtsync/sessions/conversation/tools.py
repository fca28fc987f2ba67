"""Tools that both agents have, each under its own name.

The shell is the one that both have with the same meaning. Other calls stay calls under the names that they had, so that
no result loses its call; the note before the conversation says that these tools are not the reader's.
"""

from __future__ import annotations

import shlex
from typing import Any

CLAUDE_CODE, CODEX = "claude-code", "codex"
_SHELLS = {"Bash": CLAUDE_CODE, "exec_command": CODEX, "shell": CODEX, "shell_command": CODEX, "local_shell": CODEX}


def translated(name: str, arguments: dict[str, Any], to: str) -> tuple[str, dict[str, Any]]:
    """A call as the agent ``to`` would make it; as it is, where that has no such tool."""
    if _SHELLS.get(name, to) == to:
        return name, arguments
    command = _command(arguments)
    if command is None:
        return name, arguments
    if to == CODEX:
        return "exec_command", {"cmd": command}
    return "Bash", {"command": command}


def own_name(name: str, to: str) -> str | None:
    """What the agent ``to`` calls the tool ``name``; None: it has none."""
    if name in _SHELLS:
        return "exec_command" if to == CODEX else "Bash"
    return name if name.startswith("mcp__") else None


def _command(arguments: dict[str, Any]) -> str | None:
    given = arguments.get("command", arguments.get("cmd"))
    if isinstance(given, list) and all(isinstance(word, str) for word in given):
        if len(given) == 3 and given[1] in ("-lc", "-c"):
            return str(given[2])
        return shlex.join(given)
    return given if isinstance(given, str) else None
