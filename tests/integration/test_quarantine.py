"""An acknowledged commit that no table takes: nothing is lost, the rest is served, and it comes back once it can."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.harness import Daemon, wait_until

pytestmark = pytest.mark.integration


@pytest.fixture
def daemons() -> Iterator[tuple[Daemon, Daemon]]:
    with Daemon("a") as a, Daemon("b", peers=[a.url]) as b:
        yield a, b


def database(daemon: Daemon) -> closing[sqlite3.Connection]:
    return closing(sqlite3.connect(daemon.data / "crdtsync.db", isolation_level=None, timeout=10))


def plant(daemon: Daemon, position: str, seq: str) -> None:
    """A row in the log of ``default`` where the next own change of the daemon belongs, by its place or its number."""
    with database(daemon) as db:
        space, writer = db.execute(
            "SELECT o.space, o.writer FROM own_writers o JOIN spaces s ON s.id = o.space WHERE s.name = 'default'"
        ).fetchone()
        db.execute(
            f"INSERT INTO changes SELECT {position}, ?, ?, {seq}, x'00', x'00', 0 FROM changes WHERE space = ?",
            (space, writer, space),
        )


def quarantined(daemon: Daemon) -> int:
    with database(daemon) as db:
        return int(db.execute("SELECT COUNT(*) FROM quarantine").fetchone()[0])


def test_what_fitted_into_no_table_is_taken_in_again_while_the_daemon_runs() -> None:
    with Daemon() as daemon:
        state = daemon.client()
        state.set("before", 1)
        daemon.wait_log("ready")
        wait_until(lambda: settled(daemon))
        plant(daemon, position="MAX(position) + 1", seq="999")
        state.set("stuck", "acknowledged")
        daemon.wait_log("quarantined")
        state.set("after", 3)
        assert [state.get(key) for key in ("before", "stuck", "after")] == [1, "acknowledged", 3]
        assert quarantined(daemon) == 0
        daemon.kill()
        daemon.start()
        assert [state.get(key) for key in ("before", "stuck", "after")] == [1, "acknowledged", 3]
        assert daemon.alarms() == []


def test_what_fits_nowhere_is_kept_aside_and_the_rest_is_served(daemons: tuple[Daemon, Daemon]) -> None:
    a, b = daemons
    here, there = a.client(), b.client()
    here.set("before", 1)
    wait_until(lambda: there.get("before") == 1 and settled(a))
    plant(a, position="MAX(position) + 100", seq="MAX(seq) + 1")
    here.set("stuck", "acknowledged")
    here.append("log", 1)
    a.wait_log("change_barred")

    alarm = next(alarm for alarm in a.status()["alarms"] if alarm["code"] == "quarantined")
    assert "stuck" in alarm["message"]
    assert here.get("stuck", default="absent") == "absent"
    assert why(a, "stuck") == ["quarantine"]
    assert why(a, "log") == ["gap"]
    here.set("after", 3)
    wait_until(lambda: there.get("after") == 3, 20)  # in both ways, and beside what is stuck
    there.set("from b", 4)
    assert there.get("stuck") == "acknowledged"  # it had left before
    assert len(a.log_events("change_barred")) == 1, "a peer that sends it again must not set that off again"

    a.kill()  # the alarm outlives it, and so do the bytes
    a.start()
    assert "quarantined" in a.alarms()
    assert quarantined(a) >= 1
    assert why(a, "stuck") == ["quarantine"]
    here.set("again", 5)
    wait_until(lambda: there.get("again") == 5)

    a.stop()
    with database(a) as db:
        db.execute("DELETE FROM changes WHERE body = x'00'")  # the reason is gone
    a.start()
    wait_until(lambda: here.get("from b") == 4)
    assert [here.get(key) for key in ("before", "stuck", "after", "again")] == [1, "acknowledged", 3, 5]
    assert here.log("log") == [1]
    assert quarantined(a) == 0
    assert "quarantined" not in a.alarms()
    wait_until(lambda: a.space()["digest"] == b.space()["digest"])


def why(daemon: Daemon, key: str) -> list[str]:
    """What may be missing of a key because of something that is here, and is not shown."""
    with daemon.raw("explain") as agent:
        reasons = agent.call("explain", key=key)["reasons"]
    return [reason["code"] for reason in reasons if reason["code"] in ("quarantine", "gap", "dependency")]


def settled(daemon: Daemon) -> bool:
    with database(daemon) as db:
        written = "SELECT 1 FROM changes c JOIN spaces s ON s.id = c.space WHERE s.name = 'default'"
        return db.execute(written).fetchone() is not None
