"""Why the service does not run, and what to do: from what its manager remembers and what the daemon said last."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Iterator, Mapping

from crdtsyncd.config.exit_status import BUG, FAILED, SETTINGS, UNFIT_DATA
from crdtsyncd.service.install_units import CALL_TIMEOUT_S, ON_DEMAND, UNITS, UnitsPlace, UnitState
from crdtsyncd.wording import counted

from crdtsync.named_tuple import NamedTuple

_PREFIX = "crdtsyncd: "
_LOG_LINES_MAX = 200
_DO_FIRST = {
    SETTINGS: "correct the settings (crdtsyncd --check-config says whether they are right)",
    UNFIT_DATA: "do what that says",
    FAILED: "do what that says; it is tried again all the time",
    BUG: "report it with the log",
}
"""By exit status."""
_ENDED_BY = {
    "core-dump": "it crashed",
    "oom-kill": "the system had no memory left for it",
    "protocol": "it ended before it was ready",
    "signal": "it was killed",
    "timeout": "it was not ready, or did not stop, in time",
    "trigger-limit-hit": "the daemon could not be started, however often agents asked for it",
    "watchdog": "it made no progress for the time of the watchdog",
}
"""By the manager's ``Result``."""


class Fault(NamedTuple):
    """``unit`` is not as it should be, why, and what to do."""

    unit: str
    message: str
    remedy: str


def faults(place: UnitsPlace, states: Iterable[UnitState]) -> Iterator[Fault]:
    """One for each unit that does not run, and is not about to."""
    states = list(states)
    install = f"{'' if place.sysusers is None else 'sudo '}crdtsync service install"
    for state in states:
        is_unwanted = state.unit in ON_DEMAND and state.active == "inactive" and state.enabled != "enabled"
        if state.active == "active" or _is_starting(state) or is_unwanted:
            continue
        start = _start(place, states, state.unit)
        if state.enabled == "not installed":
            yield Fault(state.unit, "is not installed", f"{install}{' --user' if place.sysusers is None else ''}")
        elif state.active in ("inactive", "deactivating") and state.result == "success":
            yield Fault(state.unit, "is stopped", f"start it: {start}")
        elif state.unit != UNITS[1]:
            ended = _ENDED_BY.get(state.result, state.result)
            yield Fault(state.unit, f"has failed: {ended}", f"then {start}")
        else:
            yield _of_service(place, state, start)


def start_failed(place: UnitsPlace, state: UnitState) -> Fault:
    """Why the service could not be started, though another attempt may be under way, which an agent has caused."""
    wrong = next(faults(place, [state]), None)
    return wrong or _of_service(place, state, _start(place, [state], state.unit))


def _of_service(place: UnitsPlace, state: UnitState, start: str) -> Fault:
    exited = _waits(state) or state.result == "exit-code"
    said = (state.text if exited else "") or _ENDED_BY.get(state.result) or _last_words(place, state)
    does = "has failed" if state.active == "failed" else "does not get started"
    does += f" after {counted(state.restarts, 'restart')}" if _is_retried(state) else ""
    status = f" (exit status {state.status})" if state.result == "exit-code" else ""
    log = f"see its log: journalctl {'--user-unit' if place.sysusers is None else '--unit'} crdtsyncd"
    first = "do what that says" if _waits(state) else _DO_FIRST.get(state.status, log) if exited else log
    return Fault(state.unit, f"{does}{status}: {said or 'its log says why'}", f"{first}; then {start}")


def _waits(state: UnitState) -> bool:
    """It has said why it ends, and does so in a moment."""
    return state.active == "activating" and bool(state.text)


def _is_retried(state: UnitState) -> bool:
    return state.active == "activating" and state.restarts > 0 and state.unit == UNITS[1]


def _is_starting(state: UnitState) -> bool:
    is_well = state.active == "activating" and state.result == "success"
    return is_well and not _waits(state) and not _is_retried(state)


def _start(place: UnitsPlace, states: Iterable[UnitState], unit: str) -> str:
    """The command that starts the service, or a unit that is beside it.

    A manager opens a socket only while the service does not run, which may run on when its socket is lost.
    """
    systemctl = " ".join(place.manager) if place.sysusers is None else f"sudo {place.manager[0]}"
    is_socket_lost = any(state.unit == UNITS[0] and state.active == "failed" for state in states)
    verb = "restart" if is_socket_lost and unit in UNITS else "start"
    return f"{systemctl} {verb} {' '.join(UNITS) if unit in UNITS else unit}"


def _last_words(place: UnitsPlace, state: UnitState) -> str:
    """The last message of the last process before it ended, out of the journal; empty where that may not be read."""
    which = ["--user-unit" if place.sysusers is None else "--unit", state.unit, "--boot"]
    command = ["journalctl", *which, "--lines", str(_LOG_LINES_MAX), "--output", "json", "--no-pager", "--quiet"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=CALL_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return last_words([json.loads(line) for line in done.stdout.splitlines()], state)


def last_words(lines: Iterable[Mapping[str, object]], state: UnitState) -> str:
    """The last message of the last process, from a journal's lines: never one of an earlier process, whose fault may
    have been cured.

    While the next one starts, which has said nothing yet, the last one is that before. A sentence of the daemon goes
    before the end of a traceback, or what the manager has to say of a program that it could not start.
    """
    said: dict[str, list[str]] = {}
    for line in lines:
        pid, message = str(line.get("_PID")), line.get("MESSAGE")
        if isinstance(message, str) and _is_of_process(line) and not message.startswith("{"):
            said.setdefault(pid, []).append(message)
    is_next = state.active == "activating" and str(state.last_pid) not in said
    words = next(reversed(said.values()), []) if is_next else said.get(str(state.last_pid), [])
    sentences = [message.removeprefix(_PREFIX) for message in words if message.startswith(_PREFIX)]
    return next(reversed(sentences or words), "")


def _is_of_process(line: Mapping[str, object]) -> bool:
    """Not of the manager, which writes into the log of a unit, too: of each process that it starts."""
    return "JOB_ID" not in line and line.get("_COMM") != "systemd"
