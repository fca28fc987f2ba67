"""Where the daemon is and who we are: socket, space and agent name, from arguments and the environment."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from crdtsync.errors import DaemonUnavailable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SYSTEM_SOCKET = "/run/crdtsync/agent.sock"
_NAME_CHARS_MAX = 128
_NAME_CHARS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789._-")


def socket_paths(socket: str | os.PathLike[str] | None, environment: Mapping[str, str] = os.environ) -> list[str]:
    """The sockets to try, in order: the argument or CRDTSYNC_SOCKET alone, else the user's own and the system's."""
    chosen = socket or environment.get("CRDTSYNC_SOCKET")
    if chosen:
        return [os.fspath(chosen)]
    runtime_directory = environment.get("XDG_RUNTIME_DIR")
    own = [f"{runtime_directory}/crdtsync/agent.sock"] if runtime_directory else []
    return [*own, SYSTEM_SOCKET]


def space_name(space: str | None, environment: Mapping[str, str] = os.environ) -> str:
    """The space to attach to: the argument, CRDTSYNC_SPACE, or ``default``."""
    return space or environment.get("CRDTSYNC_SPACE") or "default"


def after_token(after: str | None, environment: Mapping[str, str] = os.environ) -> str | None:
    """What the daemon must hold before it answers: the argument or CRDTSYNC_AFTER, a token; None: nothing."""
    return after or environment.get("CRDTSYNC_AFTER") or None


def agent_name(agent: str | None, environment: Mapping[str, str] = os.environ) -> str:
    """The name to write under: the argument, CRDTSYNC_AGENT, or one made of the user and the program."""
    return agent or environment.get("CRDTSYNC_AGENT") or default_agent_name(_user_name(environment), sys.argv[0])


def default_agent_name(user: str, program_path: str) -> str:
    """``user.program`` as a valid name: other characters become ``-``, and it starts with a letter or digit."""
    program_path = program_path.removesuffix("/__main__.py")
    program = os.path.basename(program_path).removesuffix(".py")  # noqa: PTH119  # pathlib takes 5 ms to import
    if program in ("", "-c", "-"):
        program = "python"
    name = "".join(char if char in _NAME_CHARS else "-" for char in f"{user}.{program}".lower())
    return name.lstrip("._-")[:_NAME_CHARS_MAX] or "agent"


def _user_name(environment: Mapping[str, str]) -> str:
    for variable in ("LOGNAME", "USER"):
        if environment.get(variable):
            return environment[variable]
    try:
        import pwd

        return pwd.getpwuid(os.getuid()).pw_name
    except (ImportError, KeyError):
        return f"uid{os.getuid()}"


def unavailable(failures: Sequence[tuple[str, OSError]]) -> DaemonUnavailable:
    """The error for sockets that could not be opened: what was tried, why it failed and what to do."""
    for path, error in failures:
        if isinstance(error, PermissionError):
            return DaemonUnavailable(f"this user may not open {path}: {_advice(path)}")
    tried = " and ".join(f"{path} ({_reason(error)})" for path, error in failures)
    return DaemonUnavailable(
        f"no daemon answers on {tried}: start crdtsyncd, or name its socket with --socket or CRDTSYNC_SOCKET"
    )


def _reason(error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return "no such socket"
    if isinstance(error, ConnectionRefusedError):
        return "nobody listens"
    return error.strerror or str(error) or type(error).__name__


def _advice(path: str) -> str:
    """Which group to join, found from the socket or the nearest directory above it that can be seen."""
    while True:
        try:
            status = os.stat(path)
        except OSError:
            parent = os.path.dirname(path)  # noqa: PTH120  # pathlib takes 5 ms to import
            if parent == path:
                return "ask its administrator for access"
            path = parent
            continue
        group = _group_name(status.st_gid)
        return f"{path} belongs to the group {group}; join it (usermod -aG {group} USER) and log in again"


def _group_name(gid: int) -> str:
    try:
        import grp

        return grp.getgrgid(gid).gr_name
    except (ImportError, KeyError):
        return str(gid)
