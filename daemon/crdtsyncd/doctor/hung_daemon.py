"""A daemon that listens and does not answer: which process that is, and why, as far as the system can tell.

For example, somebody has pressed Ctrl-Z in the terminal of a daemon. Its socket still takes connections, for that is
done by the system; whoever asks for something waits. The process of the socket's other end is 4711, and the system says
that it is stopped.
"""

from __future__ import annotations

import socket
import struct
from pathlib import Path

from crdtsyncd.doctor.finding import Finding, problem

from crdtsync.errors import ConfigError

TIMEOUT_S = 2.0
_UCRED = struct.Struct("3i")
_MANAGER_PID = 1
_IS_DOING = {
    "T": "it is stopped",
    "t": "a debugger has stopped it",
    "D": "it waits for its disk",
    "R": "it is busy",
    "S": "it waits for something",
    "Z": "it has ended, and nobody has taken notice",
}
"""By the state of a process, proc_pid_stat(5)."""


def listener_of(path: str) -> int:
    """The process that serves a unix socket; 0 if that cannot be told.

    A manager that holds the socket is not meant: then it is the main process of the service.
    """
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as probe:
            probe.settimeout(TIMEOUT_S)
            probe.connect(path)
            pid, _, _ = _UCRED.unpack(probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))
    except OSError:
        return 0
    return int(pid) if pid != _MANAGER_PID and not _is_manager(int(pid)) else _main_process()


def _is_manager(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip() == "systemd"
    except OSError:
        return False


def _main_process() -> int:
    from crdtsyncd.service.install_units import UNITS, installed_places, state

    try:
        return next((found.pid for place in installed_places() if (found := state(place, UNITS[1])).pid), 0)
    except ConfigError:
        return 0


def examine_hung(pid: int, waited_s: float) -> Finding:
    """The fault of a daemon that has not answered for so long."""
    who = f"pid {pid} listens" if pid else "something listens"
    state = _state_of(pid)
    doing = f": {_IS_DOING[state]}" if state in _IS_DOING else ""
    if state == "T":
        remedy = f"let it go on: kill -CONT {pid}"
    elif state == "D":
        remedy = "see what its disk does: sudo dmesg; it goes on when that answers"
    else:
        kill = f"kill -9 {pid}, and start it again" if pid else "start it again"
        remedy = f"look at its log; if it stays so, report that and {kill}: no acknowledged write is lost"
    return problem("daemon", f"{who} and has not answered for {waited_s:.0f} s{doing}", remedy)


def _state_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return ""
