"""What has a time to live disappears on every host at once, is told once, and is deleted once."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from time import time
from typing import Any

import pytest
from crdtsyncd.storage.database import DATABASE_NAME

from crdtsync.client import Client, Event
from crdtsync.core.identity import LOOPBACK_CLUSTER
from crdtsync.wire.change import Change, Codec
from tests.harness import Cluster, Daemon, wait_until, wait_until_equal

pytestmark = pytest.mark.integration

TTL_S = 2
"""Long enough for the other host to hear of a key before it expires."""
LATE_S_MAX = 5.0
CODEC = Codec(LOOPBACK_CLUSTER, "default", 0)


class Listener:
    """Notes every event, with the time at which it came."""

    def __init__(self, client: Client, prefix: str = "") -> None:
        self.events: list[tuple[float, Event]] = []
        self._watch = client.watch(prefix)
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        for event in self._watch:
            self.events.append((time(), event))

    def told(self, key: str) -> list[tuple[str, Any]]:
        """What was told of a key, and in batches."""
        found = [part for _, event in self.events for part in (event, *event.events)]
        return [(event.event, event.value) for event in found if event.key == key]

    def time_of(self, name: str) -> float:
        """When the first event of this name came."""
        return next(at for at, event in self.events if event.event == name)


def query(daemon: Daemon, statement: str) -> list[Any]:
    with closing(sqlite3.connect(f"file:{daemon.data / DATABASE_NAME}?mode=ro", uri=True)) as database:
        return database.execute(statement).fetchall()


def rows(daemon: Daemon) -> int:
    """How many entries its database holds."""
    return int(query(daemon, "SELECT COUNT(*) FROM entries WHERE position IS NULL")[0][0])


def deletions(daemon: Daemon) -> list[Change]:
    """The changes in its log that delete what has expired."""
    changes = [CODEC.decode(body) for (body,) in query(daemon, "SELECT body FROM changes ORDER BY position")]
    return [change for change in changes if any((op.attrs or {}).get("expired") for op in change.ops)]


def test_a_key_disappears_on_both_hosts_at_once_and_is_deleted_once(pair: Cluster) -> None:
    with pair[0].client("ann") as ann, pair[1].client("bob") as bob:
        listeners = [Listener(ann), Listener(bob)]
        wait_until(lambda: all(listener.events for listener in listeners))
        began_s = time()
        ann.set("k", "v", ttl=TTL_S)
        for client in (ann, bob):
            wait_until(lambda client=client: client.get("k") is None)  # type: ignore[misc]
        wait_until(lambda: all(("expired", None) in listener.told("k") for listener in listeners))
        for listener in listeners:
            assert -0.01 < listener.time_of("expired") - began_s - TTL_S < LATE_S_MAX
        wait_until(lambda: not any(map(rows, pair)))
        wait_until_equal(pair)
        for daemon in pair:
            (deletion,) = deletions(daemon)
            assert [op.key for op in deletion.ops] == ["k"]
            assert daemon.space()["keys"] == daemon.space()["entries"] == 0
        ann.set("last", 1)  # what the deletion might have told would be told before this
        wait_until(lambda: all(listener.told("last") for listener in listeners))
        for listener in listeners:
            assert listener.told("k") == [("set", "v"), ("expired", None)]


def test_many_keys_are_deleted_in_few_changes_and_renewed_ones_stay(pair: Cluster) -> None:
    count = 3000
    with pair[0].client("ann") as ann, pair[1].client("bob") as bob:
        listener = Listener(bob, "lease/")
        wait_until(lambda: listener.events)
        for first in range(0, count, 500):
            with ann.batch() as batch:
                for n in range(first, first + 500):
                    batch.set(f"lease/{n:04}", n, ttl=TTL_S)
            if first % 1000 == 0:
                ann.set(f"lease/{first:04}", "renewed", ttl=600)
        wait_until_equal(pair)
        wait_until(lambda: rows(pair[0]) == rows(pair[1]) == 3)
        wait_until_equal(pair)
        assert bob.keys() == ann.keys() == ["lease/0000", "lease/1000", "lease/2000"]
        assert len(deletions(pair[1])) <= 30
        expired = [event.key for _, event in listener.events if event.event == "expired"]
        assert len(expired) == len({*expired}) == count - 3


def test_a_host_that_was_down_deletes_its_own_when_it_is_back(pair: Cluster) -> None:
    with pair[0].client("ann") as ann, pair[1].client("bob") as bob:
        bob.wait(ann.set("k", "v", ttl=TTL_S))
        listener = Listener(bob)
        bob.set("other", 1)
        wait_until(lambda: listener.told("other"))
        after = listener.events[-1][1].token
        pair[0].kill()
        wait_until(lambda: bob.get("k") is None)
        assert rows(pair[1]) == 2
        pair[0].start()
        wait_until(lambda: rows(pair[0]) == rows(pair[1]) == 1)
        for daemon in pair:
            assert len(deletions(daemon)) == 1
        assert listener.told("k") == [("snapshot", "v"), ("expired", None)]
        assert next(iter(bob.watch("", after=after))).event == "expired"
