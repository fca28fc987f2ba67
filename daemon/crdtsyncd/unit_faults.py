"""Why the service does not run, and what to do: from what its manager remembers and what the daemon said last."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from crdtsyncd.exits import BUG, FAILED, SETTINGS, UNFIT_DATA
from crdtsyncd.units import CALL_TIMEOUT_S, UNITS, Place, UnitState

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
    start = f"{systemctl} start {' '.join(UNITS)}"
    for state in states:
        waits = state.active == "activating" and bool(state.text)  # it has said why it ends, and does so in a moment
        if state.active == "active" or (state.active == "activating" and state.result == "success" and not waits):
            continue
        if state.enabled == "not installed":
            yield Fault(state.unit, "is not installed", install)
        elif state.active in ("inactive", "deactivating") and state.result == "success":
            yield Fault(state.unit, "is stopped", f"start it: {start}")
        elif state.unit != UNITS[1]:
            yield Fault(state.unit, f"has failed: {_ENDED_BY.get(state.result, state.result)}", f"then {start}")
        else:
            exited = waits or state.result == "exit-code"
            said = (state.text if exited else "") or _ENDED_BY.get(state.result) or _last_words(place, state.unit)
            does = "has failed" if state.active == "failed" else "does not get started"
            status = f" (exit status {state.status})" if state.result == "exit-code" else ""
            log = f"see its log: journalctl {'--user-unit' if is_user else '--unit'} crdtsyncd"
            first = "do what that says" if waits else _DO_FIRST.get(state.status, log) if exited else log
            yield Fault(state.unit, f"{does}{status}: {said or 'its log says why'}", f"{first}; then {start}")


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
