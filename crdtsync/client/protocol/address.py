"""Where the daemon is and who we are: socket, space and agent name, from arguments and the environment."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, TypeVar

from crdtsync.errors import ConfigError, DaemonUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

T = TypeVar("T")

SYSTEM_SOCKET = "/run/crdtsync/agent.sock"
_NAME_CHARS_MAX = 128
_KEY_CHARS_MAX = 1024
_NAME_CHARS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789._-")


def socket_paths(socket: str | os.PathLike[str] | None, environment: Mapping[str, str] = os.environ) -> list[str]:
    """The sockets to try, in order: the argument or CRDTSYNC_SOCKET alone, else the user's own and the system's.

    MCP clients start a server with HOME and PATH and little else, so the user's own is found without XDG_RUNTIME_DIR.

    :raises ConfigError: it is a URL.
    """
    chosen = socket or environment.get("CRDTSYNC_SOCKET")
    if chosen:
        path = os.fspath(chosen)
        if "://" in path:
            scheme = path.partition("://")[0]  # what follows may hold a password
            raise ConfigError(f"{scheme}://… is a URL: give the path of the daemon's socket, such as {SYSTEM_SOCKET}")
        return [path]
    runtime_directory = environment.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}"  # systemd sets it to that
    return [f"{runtime_directory}/crdtsync/agent.sock", SYSTEM_SOCKET]


def space_name(space: str | None, environment: Mapping[str, str] = os.environ) -> str:
    """The space to attach to: the argument, CRDTSYNC_SPACE, or ``default``."""
    return space or environment.get("CRDTSYNC_SPACE") or "default"


def after_token(after: str | None, environment: Mapping[str, str] = os.environ) -> str | None:
    """The point that the daemon must hold before it answers: the argument or CRDTSYNC_AFTER, a token; None: none."""
    return after or environment.get("CRDTSYNC_AFTER") or None


def agent_key(key: str | os.PathLike[str] | None, environment: Mapping[str, str] = os.environ) -> str | None:
    """The agent's proof of its name: a key, or the path of a file that holds it; else CRDTSYNC_AGENT_KEY, or the
    content of the file CRDTSYNC_AGENT_KEY_FILE. None: it proves nothing; an empty key says so whatever the environment
    does.

    :raises ConfigError: the file cannot be read.
    """
    if key is None:
        key = environment.get("CRDTSYNC_AGENT_KEY")
    if key is not None and isinstance(key, str):
        return key.strip() or None
    path = key or environment.get("CRDTSYNC_AGENT_KEY_FILE")
    if not path:
        return None
    try:
        with open(path, encoding="ascii") as file:  # noqa: PTH123  # pathlib takes 5 ms to import
            return file.read(_KEY_CHARS_MAX).strip()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it holds something else"
        raise ConfigError(f"cannot read the agent key in {os.fspath(path)}: {reason}") from None


def agent_name(agent: str | None, environment: Mapping[str, str] = os.environ, key: str | None = None) -> str:
    """The name to write under: the argument, CRDTSYNC_AGENT, that of the key, or one of the user and the program."""
    named = agent or environment.get("CRDTSYNC_AGENT") or (key or "").partition(".")[2].partition(".")[2]
    return named or default_agent_name(_user_name(environment), sys.argv[0])


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
            forbidden = DaemonUnavailable(f"this user may not open {path}: {_advice(path)}")
            forbidden.__cause__ = error
            return forbidden
    tried = " and ".join(f"{path} ({_reason(error)})" for path, error in failures)
    return DaemonUnavailable(
        f"no daemon answers on {tried}: start crdtsyncd, or name its socket with --socket or CRDTSYNC_SOCKET"
    )


def may_come(error: DaemonUnavailable) -> bool:
    """Whether to wait helps: a daemon may be on its way, a right to its socket is not."""
    return not isinstance(error.__cause__, PermissionError)


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


def connection_of(
    make: Callable[[list[str], str, str, str | None, str | None], T],
    socket: str | os.PathLike[str] | None,
    space: str | None,
    agent: str | None,
    after: str | None,
    key: str | os.PathLike[str] | None,
) -> T:
    """A connection to what arguments and environment say, as who they say."""
    proof = agent_key(key)
    return make(socket_paths(socket), agent_name(agent, key=proof), space_name(space), after_token(after), proof)
