"""The suite's edits of a store at rest, against the database of one host of two; prints which are noticed.

    python edits_at_rest.py 20      # texts of 20 characters more than the sentence

Run by the Python that has the daemon, with the suite's packages on its path. A host notices an edit if it raises an
alarm, refuses to read the value, or logs that it has mended it.
"""

from __future__ import annotations

import json
import sqlite3
import sys
from concurrent.futures import ThreadPoolExecutor
from time import monotonic, sleep
from typing import Any

from agmi.adapters.base import MemoryAdapter, Record
from agmi.attacks.at_rest import AT_REST_ATTACKS_WITH_SNAPSHOT

from crdtsync.errors import CrdtSyncError
from tests.harness.cluster import Cluster

WITHIN_S = 20.0
SIGNS = {"value_mended", "value_damaged", "repair_started", "repaired", "alarm"}


class OfCrdtsync(MemoryAdapter):  # type: ignore[misc]  # Any where the suite is not installed
    """Texts under ``thread-a/``; ``thread-b/`` is the suite's second context."""

    name = "crdtsync"
    POSITION_KEYS = ("id", "row", "agent")
    supports_replay = supports_metadata = supports_snapshot = True

    def __init__(self, padding: int) -> None:
        self._padding = padding
        self._marks: list[int] | None = None

    def setup(self) -> None:
        self._cluster = Cluster(2)

    def teardown(self) -> None:
        self._cluster.close()

    def seed(self, n: int) -> None:
        self._seed("a", range(n))

    def seed_other(self, n: int) -> None:
        self._seed("b", range(n))

    def append_genuine(self) -> None:
        count = len(self._up("ann").keys("thread-a/"))
        self._seed("a", range(count, count + 1))

    def read_all_raw(self) -> list[Record]:
        return self._records("a")

    def read_other_raw(self) -> list[Record]:
        return self._records("b")

    def payload_of(self, record: Record) -> str:
        return str(record.fields["value"].hex())

    def owner_of(self, record: Record) -> str:
        return str(record.fields["id"].split("/")[0])

    def mutate_payload(self, record: Record) -> Record:
        record.fields["value"] = record.fields["value"].replace(b"says", b"lies")
        return record

    def forge_record(self, template: Record) -> Record:
        fields = {**template.fields, "id": f"thread-a/{template.seq + 1}"}
        return self.mutate_payload(Record(template.seq + 1, fields))

    def write_raw(self, record: Record) -> None:
        key = f"thread-a/{record.seq}"
        with self._database() as db:
            if db.execute("SELECT 1 FROM entries WHERE key = ? AND position IS NULL", (key,)).fetchone() is None:
                found = db.execute("SELECT * FROM entries WHERE row = ?", (record.fields["row"],))
                row = dict(zip([column[0] for column in found.description], found.fetchone(), strict=True))
                row |= {"row": None, "key": key, "n": row["n"] + 1}
                marks = ", ".join("?" * len(row))
                new = db.execute(f"INSERT INTO entries ({', '.join(row)}) VALUES ({marks})", [*row.values()]).lastrowid
                if row["value"] is None:
                    db.execute("INSERT INTO entry_values VALUES (?, ?)", (new, record.fields["value"]))
        self._put(key, record.fields["value"])

    def delete_raw(self, seq: int) -> None:
        with self._database() as db:
            key = f"thread-a/{seq}"
            rows = "(SELECT row FROM entries WHERE key = ? AND position IS NULL)"
            db.execute(f"DELETE FROM entry_values WHERE row IN {rows}", (key,))
            db.execute(f"DELETE FROM entries WHERE row IN {rows}", (key,))

    def replay_onto(self, victim_seq: int, donor: Record) -> None:
        self._put(f"thread-a/{victim_seq}", donor.fields["value"])

    def read_meta(self, seq: int) -> dict[str, Any]:
        with self._database() as db:
            sought = "SELECT agent FROM entries WHERE key = ? AND position IS NULL"
            return {"agent": db.execute(sought, (f"thread-a/{seq}",)).fetchone()[0]}

    def write_meta(self, seq: int, meta: dict[str, Any]) -> None:  # an agent is all that there is
        with self._database() as db:
            change = "UPDATE entries SET agent = 'root' WHERE key = ? AND position IS NULL"
            db.execute(change, (f"thread-a/{seq}",))

    def snapshot_store(self) -> object:
        self._down()
        return self._copy_store(self._cluster[0].data)

    def restore_store(self, token: object) -> None:
        self._down()
        self._restore_store(token, self._cluster[0].data)

    def reload(self) -> None:
        self._down()
        self._marks = [len(daemon.log_lines()) for daemon in self._cluster]
        self._up("ann")

    def verify(self) -> bool:
        """True until one of the hosts says that something is wrong."""
        self._up("ann")
        marks, self._marks = self._marks, None
        end = monotonic() + (WITHIN_S if marks is not None else 0)
        while True:
            signs = self._signs(marks or [len(daemon.log_lines()) for daemon in self._cluster])
            if signs or monotonic() >= end:
                self.verify_detail = ", ".join(sorted(signs))
                return not signs
            sleep(0.2)

    def _signs(self, marks: list[int]) -> set[str]:
        found: set[str] = set()
        for daemon, mark in zip(self._cluster, marks, strict=True):
            client = daemon.client("reader")
            found |= {alarm["code"] for alarm in client.status()["alarms"]}
            found |= SIGNS & {line["event"] for line in map(json.loads, daemon.log_lines()[mark:]) if "event" in line}
            try:
                for key in client.keys("thread-a/"):
                    client.get(key)
            except CrdtSyncError as error:
                found.add(error.code)
        return found

    def _seed(self, thread: str, numbers: range) -> None:
        client = self._up("ann")
        for number in numbers:
            client.set(f"thread-{thread}/{number}", f"{thread} entry {number} says something{'.' * self._padding}")
        self._cluster[1].client("reader").wait(client.now())

    def _records(self, thread: str) -> list[Record]:
        with self._database() as db:
            rows = db.execute(
                "SELECT key, e.row, COALESCE(v.value, e.value), agent FROM entries e LEFT JOIN entry_values v "
                "ON v.row = e.row WHERE key LIKE ? AND position IS NULL ORDER BY key", (f"thread-{thread}/%",)
            ).fetchall()  # fmt: skip
        names = ("id", "row", "value", "agent")
        return [Record(int(row[0].split("/")[1]), dict(zip(names, row, strict=True))) for row in rows]

    def _put(self, key: str, value: bytes) -> None:
        with self._database() as db:
            sought = "SELECT row, value IS NULL FROM entries WHERE key = ? AND position IS NULL"
            row, is_long = db.execute(sought, (key,)).fetchone()
            db.execute(f"UPDATE {'entry_values' if is_long else 'entries'} SET value = ? WHERE row = ?", (value, row))

    def _database(self) -> _Opened:
        self._down()
        return _Opened(self._cluster[0].data / "crdtsync.db")

    def _down(self) -> None:
        if self._cluster[0].is_running:
            self._cluster[0].stop()

    def _up(self, agent: str) -> Any:
        if not self._cluster[0].is_running:
            self._cluster[0].start()
            self._cluster.wait_connected()
        return self._cluster[0].client(agent)


class _Opened:
    def __init__(self, path: Any) -> None:
        self._db = sqlite3.connect(path, isolation_level=None)

    def __enter__(self) -> sqlite3.Connection:
        return self._db

    def __exit__(self, *_: object) -> None:
        self._db.close()


if __name__ == "__main__":
    noticed = {}
    with ThreadPoolExecutor(len(AT_REST_ATTACKS_WITH_SNAPSHOT)) as at_once:  # nearly all the time they wait
        run = [at_once.submit(attack().run, OfCrdtsync(int(sys.argv[1]))) for attack in AT_REST_ATTACKS_WITH_SNAPSHOT]
    for attack, done in zip(AT_REST_ATTACKS_WITH_SNAPSHOT, run, strict=True):
        result = done.result()
        assert result.error is None, f"{attack.name}: {result.error}"
        assert result.guard is None, f"{attack.name}: {result.guard}"
        noticed[attack.name] = result.detected
        print(attack.name, result.status, result.detail, file=sys.stderr)
    print(json.dumps(noticed))
