"""What is said of a service that does not run: the real cause, and what to do about that."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from crdtsyncd.config import exit_status
from crdtsyncd.service import diagnose_units
from crdtsyncd.service.diagnose_units import faults, last_words
from crdtsyncd.service.install_units import ON_DEMAND, UNITS, UnitsPlace, UnitState

from crdtsync.errors import ConfigError, StorageError

ROOT = Path(__file__).resolve().parents[4]
SYSTEM = UnitsPlace(Path("/etc/systemd/system"), Path("/etc/sysusers.d/crdtsync.conf"), ("systemctl",))
USER = UnitsPlace(Path("/home/ann/.config/systemd/user"), None, ("systemctl", "--user"))
RUNS = UnitState(UNITS[0], "active", "enabled", 0, 0, "", "success", 0)


@pytest.fixture(autouse=True)
def journal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnose_units, "_last_words", lambda *_: "what the journal has")


def service(active: str, result: str = "success", status: int = 0, text: str = "", restarts: int = 0) -> UnitState:
    return UnitState(UNITS[1], active, "enabled", 0, restarts, text, result, status)


def peers(active: str, enabled: str, result: str = "success") -> UnitState:
    return UnitState(ON_DEMAND[0], active, enabled, 0, 0, "", result, 0)


def told(place: UnitsPlace, *states: UnitState) -> str:
    (fault,) = faults(place, states)
    return f"{fault.unit} {fault.message}; {fault.remedy}"


def test_a_service_that_runs_or_is_about_to_has_no_fault():
    assert not list(faults(SYSTEM, [RUNS, service("active", text="ready")]))
    assert not list(faults(SYSTEM, [RUNS, service("activating")]))


def test_bad_settings_are_named_and_install_is_no_remedy():
    said = told(SYSTEM, RUNS, service("failed", "exit-code", exit_status.SETTINGS, "log_level = 5: Input should be"))
    assert said.startswith("crdtsyncd.service has failed (exit status 2): log_level = 5: Input should be; correct the")
    assert said.endswith("then sudo systemctl start crdtsyncd.socket crdtsyncd.service")
    assert "install" not in said


def test_what_is_tried_again_and_what_was_killed_are_told_apart():
    again = told(USER, RUNS, service("activating", "exit-code", exit_status.FAILED))
    assert "does not get started (exit status 1): what the journal has; do what that says" in again
    assert "then systemctl --user start" in again
    killed = told(SYSTEM, RUNS, service("failed", "signal", 2, "ready; 3 agents"))
    assert "it was killed; see its log: journalctl --unit crdtsyncd" in killed, "the 2 is no exit status"
    assert "ready" not in killed


def test_a_start_that_failed_and_waits_before_it_ends_is_told():
    said = told(SYSTEM, RUNS, service("activating", text="cannot listen on 0.0.0.0:7420: it is in use"))
    assert "does not get started: cannot listen on 0.0.0.0:7420: it is in use; do what that says" in said


def test_one_that_is_started_again_and_again_says_why_also_while_it_starts():
    said = told(SYSTEM, RUNS, service("activating", restarts=3))
    assert "does not get started after 3 restarts: what the journal has" in said


def said_by(pid: int, *messages: str) -> list[dict[str, str]]:
    return [{"_PID": str(pid), "_COMM": "crdtsyncd", "MESSAGE": message} for message in messages]


def test_only_the_last_process_is_quoted():
    """An earlier one failed for another reason, which has been mended since."""
    earlier = said_by(10, '{"event": "starting"}', "crdtsyncd: log_level = 5: it is no level")
    ended = service("failed", "exit-code", 203)._replace(last_pid=11)
    manager = [{"_PID": "1", "_COMM": "systemd", "MESSAGE": "Main process exited, status=203/EXEC"}]
    missing = said_by(11, "crdtsyncd.service: Failed at step EXEC spawning /opt/crdtsync/bin/crdtsyncd: No such file")
    assert last_words([*earlier, *missing, *manager], ended).startswith("crdtsyncd.service: Failed at step EXEC")
    assert last_words([*earlier, *manager], ended) == ""
    traceback = said_by(11, "Traceback (most recent call last):", "ModuleNotFoundError: No module named 'click'")
    assert last_words([*earlier, *traceback], ended) == "ModuleNotFoundError: No module named 'click'"
    sentence = said_by(11, "crdtsyncd: the disk is full", "a line of a library")
    assert last_words([*earlier, *sentence], ended) == "the disk is full"


def test_while_the_next_one_starts_the_one_before_it_is_quoted():
    lines = [*said_by(10, "crdtsyncd: the first"), *said_by(11, "crdtsyncd: the second")]
    assert last_words(lines, service("activating", restarts=2)._replace(last_pid=12)) == "the second"


def test_a_lost_socket_is_opened_anew_by_a_restart():
    """While the service runs, its manager refuses to open the socket."""
    lost = UnitState(UNITS[0], "failed", "enabled", 0, 0, "", "trigger-limit-hit", 0)
    assert told(SYSTEM, lost, service("active")).endswith("sudo systemctl restart crdtsyncd.socket crdtsyncd.service")


def test_the_socket_of_peers_is_for_who_wants_it():
    up = [RUNS, service("active")]
    assert not list(faults(SYSTEM, [*up, peers("inactive", "disabled")]))
    assert not list(faults(SYSTEM, [*up, peers("active", "enabled")]))
    assert told(SYSTEM, *up, peers("inactive", "enabled")) == (
        "crdtsyncd-peers.socket is stopped; start it: sudo systemctl start crdtsyncd-peers.socket"
    )
    failed = told(SYSTEM, *up, peers("failed", "disabled", "resources"))
    assert failed.endswith("has failed: resources; then sudo systemctl start crdtsyncd-peers.socket")


def test_stopped_and_never_installed():
    assert "is stopped; start it: sudo systemctl start" in told(SYSTEM, RUNS, service("inactive"))
    missing = UnitState(UNITS[1], "inactive", "not installed", 0, 0, "", "success", 0)
    assert "crdtsync service install --user" in told(USER, RUNS, missing)


def test_the_units_do_not_start_again_after_what_no_start_heals():
    for unit in (ROOT / "systemd").glob("*/crdtsyncd.service"):
        found = re.search(r"^RestartPreventExitStatus=(.*)$", unit.read_text(), re.MULTILINE)
        assert found is not None
        assert tuple(map(int, found[1].split())) == exit_status.FINAL


def test_the_exit_status_says_whether_starting_again_may_help():
    assert exit_status.status_of(ConfigError("a setting")) == exit_status.SETTINGS
    assert exit_status.status_of(exit_status.AddressTaken("in use")) == exit_status.FAILED
    assert exit_status.status_of(exit_status.UnfitData("newer")) == exit_status.UNFIT_DATA
    assert exit_status.status_of(StorageError("the disk")) == exit_status.FAILED
