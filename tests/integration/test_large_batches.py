"""A batch that is done is answered, whatever it replaced."""

import sqlite3
import threading
from contextlib import closing

import pytest

from tests.harness.workers import beside, in_threads

pytestmark = pytest.mark.integration


def test_a_batch_that_replaces_more_than_a_reply_holds_is_still_answered(daemon):
    large = "x" * 1_000_000
    with daemon.client(agent="first") as first, daemon.client(agent="second") as second:
        for n in range(10):
            first.set(f"k/{n}", large)
        with second.batch() as batch:
            for n in range(10):
                batch.set(f"k/{n}", n)
        assert [value for _, value in second.items("k/")] == list(range(10))


def test_agents_that_write_faster_than_rows_find_their_place_wait_and_others_do_not(daemon):
    """Each batch of 1,000 leaves 12 slices of rows to be brought in: without a bound they would be 240 in the end."""
    records = []
    is_over = threading.Event()

    def write(name):
        with daemon.client(agent=name, timeout=60) as client:
            for n in range(10):
                with client.batch() as batch:
                    for key in range(1000):
                        batch.set(f"{name}/{key}", [n, "x" * 40])

    def watch():
        with closing(sqlite3.connect(f"file:{daemon.data / 'crdtsync.db'}?mode=ro", uri=True)) as db:
            while not is_over.is_set():
                records.append(db.execute("SELECT COUNT(*) FROM backlog").fetchone()[0])
                is_over.wait(0.02)

    watching = beside(watch)
    try:
        in_threads(write, ["first", "second"])
    finally:
        is_over.set()
    watching.result(60)
    assert 0 < max(records) < 160
    with daemon.client() as client:
        assert len(client.history("first/7", last=None)) == 10, "nothing of it is lost, nor told too early"
        assert sum(1 for _ in client.items("second/")) == 1000
