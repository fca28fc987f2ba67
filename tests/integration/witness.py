"""A bystander: another agent of the same daemon, that must notice nothing of what its neighbours do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgpack

from benchmarks.gauges import cpu_s
from tests.harness import Daemon

BUSY_S_MAX = 2.0
"""Of the daemon's processor time, which does not count what others do with the machine; undisturbed it takes less than
a millisecond."""


class Witness:
    """Writes, reads and watches on a connection of its own."""

    def __init__(self, daemon: Daemon) -> None:
        self.daemon = daemon
        self._agent = daemon.raw("witness")
        self._watch = self._agent.send("watch", prefix="witness/")
        self._agent.result(self._watch)
        self._count = 0

    def works(self) -> None:
        """A write, a read of it and the event of it come back, in time, on the connection made at the start."""
        self._count += 1
        used_s = cpu_s(self.daemon.pid)
        token = self._agent.write("set", key="witness/key", value=self._count)["token"]
        found = self._agent.call("get", key="witness/key", after=token)
        busy_s = cpu_s(self.daemon.pid) - used_s
        assert msgpack.unpackb(found["value"]) == self._count
        assert busy_s < BUSY_S_MAX, f"a bystander waited while the daemon computed for {busy_s:.2f} s"
        self._await_event()

    def _await_event(self) -> None:
        while not any(self._is_news(event) for _, events in self._agent.events for event in events):
            number, status, content = self._agent.receive()
            assert (number, status) == (self._watch, 2)
            self._agent.events.append((number, content))
        self._agent.events.clear()

    def _is_news(self, event: dict[str, object]) -> bool:
        assert event["event"] != "reset", "the daemon started over"
        value = event["value"]
        return isinstance(value, bytes) and msgpack.unpackb(value) == self._count

    def close(self) -> None:
        self._agent.close()


@contextmanager
def undisturbed(daemon: Daemon) -> Iterator[Witness]:
    """Before, during (``works()``) and after the block the witness is served, and nothing in the log is a bug."""
    witness = Witness(daemon)
    try:
        witness.works()
        yield witness
        witness.works()
    finally:
        witness.close()
    assert_clean(daemon)


def assert_clean(daemon: Daemon) -> None:
    """No traceback and no internal error in all that the daemon ever printed."""
    for line in daemon.log_lines():
        assert "Traceback" not in line, line
    assert not daemon.log_events("bug")


def assert_sentence(message: str) -> None:
    """A message for a person: not empty, one line, no Python in it."""
    assert message.strip()
    assert "\n" not in message
    for trace in ("Traceback", "object at 0x", "NoneType", "<class", "Error("):
        assert trace not in message, message
    assert len(message) < 1000


def rss_bytes(pid: int) -> int:
    """Resident memory of a process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise AssertionError(f"no process {pid}")
