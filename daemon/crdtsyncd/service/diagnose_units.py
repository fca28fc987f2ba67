"""Why the service does not run, and what to do: from what its manager remembers and what the daemon said last."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from crdtsyncd.config.exit_status import BUG, FAILED, SETTINGS, UNFIT_DATA
from crdtsyncd.service.install_units import CALL_TIMEOUT_S, ON_DEMAND, UNITS, Place, UnitState
from crdtsyncd.wording import counted

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


def faults(place: Place, states: Iterable[UnitState]) -> Iterator[Fault]:
    """One for each unit that does not run, and is not about to."""
    is_user = place.sysusers is None
    systemctl = " ".join(place.manager) if is_user else f"sudo {place.manager[0]}"
    install = f"{'' if is_user else 'sudo '}crdtsync service install{' --user' if is_user else ''}"
    start = _start(systemctl, UNITS[1])
    for state in states:
        waits = state.active == "activating" and bool(state.text)  # it has said why it ends, and does so in a moment
        is_retried = state.active == "activating" and state.restarts > 0 and state.unit == UNITS[1]
        is_starting = state.active == "activating" and state.result == "success" and not waits and not is_retried
        is_unwanted = state.unit in ON_DEMAND and state.active == "inactive" and state.enabled != "enabled"
        if state.active == "active" or is_starting or is_unwanted:
            continue
        if state.enabled == "not installed":
            yield Fault(state.unit, "is not installed", install)
        elif state.active in ("inactive", "deactivating") and state.result == "success":
            yield Fault(state.unit, "is stopped", f"start it: {_start(systemctl, state.unit)}")
        elif state.unit != UNITS[1]:
            ended = _ENDED_BY.get(state.result, state.result)
            yield Fault(state.unit, f"has failed: {ended}", f"then {_start(systemctl, state.unit)}")
        else:
            exited = waits or state.result == "exit-code"
            said = (state.text if exited else "") or _ENDED_BY.get(state.result) or _last_words(place, state.unit)
            does = "has failed" if state.active == "failed" else "does not get started"
            does += f" after {counted(state.restarts, 'restart')}" if is_retried else ""
            status = f" (exit status {state.status})" if state.result == "exit-code" else ""
            log = f"see its log: journalctl {'--user-unit' if is_user else '--unit'} crdtsyncd"
            first = "do what that says" if waits else _DO_FIRST.get(state.status, log) if exited else log
            yield Fault(state.unit, f"{does}{status}: {said or 'its log says why'}", f"{first}; then {start}")


def _start(systemctl: str, unit: str) -> str:
    """The command that starts the service, or a unit that is beside it."""
    return f"{systemctl} start {' '.join(UNITS) if unit in UNITS else unit}"


def _last_words(place: Place, unit: str) -> str:
    """What the daemon last said before it ended, out of the journal; empty where that may not be read."""
    which = ["--user-unit" if place.sysusers is None else "--unit", unit]
    command = ["journalctl", *which, "--lines", str(_LOG_LINES_MAX), "--output", "cat", "--no-pager", "--quiet"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=CALL_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    said = [line for line in done.stdout.splitlines() if line.startswith(_PREFIX)]
    return said[-1].removeprefix(_PREFIX) if said else ""
