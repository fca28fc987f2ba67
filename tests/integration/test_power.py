"""The power goes at any moment: what was acknowledged is there, and the database is whole.

A process commits writes and reports each; what may be on disk after a cut is worked out from a trace of its system
calls (:mod:`tests.harness.powercut`). CRDTSYNC_POWER_CUTS is how many cuts are tried. The control: the same with
commits that are not synced must be seen to lose some.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from random import Random

import pytest
from crdtsyncd.config.exit_status import UnfitData
from crdtsyncd.storage.database import Store
from crdtsyncd.storage.journal import file

from tests.harness.powercut import Call, Disk, trace
from tests.unit.daemon.counting import counters, counters_by_sum

CUTS = int(os.environ.get("CRDTSYNC_POWER_CUTS", "40"))
pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(300 + 3 * CUTS)]

WRITES = 300

WRITER = """
import os, sys
from pathlib import Path
from random import Random
from crdtsyncd.storage.journal import file as journal_file
from crdtsyncd.storage.database import Store
from tests.unit.daemon.storage.journal.test_journal import first, write

place, writes, is_synced = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "synced"
rng = Random(7)
journal_file.FILE_BYTES = 128 * 1024  # used several times
store = Store(place / "data", place / "run")
if not is_synced:
    os.fdatasync = lambda _file: None
    store._connection.execute("PRAGMA synchronous = NORMAL")
store.commit(first())
os.write(1, b"0")
for number in range(1, writes):
    store.commit(write(number, rng, bytes(rng.choice((10, 3000)))))
    os.write(1, str(number).encode())
    if rng.random() < 0.05:
        store.settle()
        if not is_synced:
            store._connection.execute("PRAGMA synchronous = NORMAL")
    if rng.random() < 0.02:
        store.checkpoint()
        store.finish_checkpoint()
    if number == writes // 2 and is_synced:
        store.close()
        store = Store(place / "data", place / "run")
os._exit(0)
"""


@pytest.fixture(autouse=True)
def journal_as_the_writer_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file, "FILE_BYTES", 128 * 1024)


@pytest.fixture(scope="module")
def strace() -> None:
    if shutil.which("strace") is None:
        pytest.skip("needs strace (apt-get install strace)")


def calls(place: Path, mode: str) -> list[Call]:
    (place / "run").mkdir(parents=True)
    command = [sys.executable, "-c", WRITER, str(place), str(WRITES), mode]
    return trace(command, place / "data", place / "trace")


def cut(done: list[Call], place: Path, seed: int) -> tuple[int, int]:
    """The highest write that was reported before a cut, and the highest that is there after it."""
    rng = Random(seed)
    begin = next(at for at, call in enumerate(done) if call.name == "report")
    disk, reported = Disk(), -1
    for call in done[: rng.randrange(begin + 1, len(done) + 1)]:
        if call.name == "report":
            reported = int(call.data)
        else:
            disk.take(call)
    shutil.rmtree(place, ignore_errors=True)
    disk.cut(rng, place / "data")
    (place / "run").mkdir()
    try:
        store = Store(place / "data", place / "run")
    except UnfitData:  # it says that it has lost something
        return reported, -1
    try:
        assert store._one("PRAGMA integrity_check", ()) == ("ok",)
        assert counters(store) == counters_by_sum(store)
        held = [entry.dot.seq for entry in store.entries(1)]
        heads = [seq for writer, seq, _ in store.heads(1) if writer == 5]
        assert held == heads, "live state and heads are of one moment"
        return reported, max(heads, default=0)
    finally:
        store.close()


@pytest.mark.usefixtures("strace")
def test_what_was_acknowledged_survives(tmp_path: Path) -> None:
    done = calls(tmp_path, "synced")
    assert sum(call.name == "report" for call in done) == WRITES
    for seed in range(CUTS):
        reported, held = cut(done, tmp_path / "cut", seed)
        assert held >= reported, f"seed {seed}: {reported} was acknowledged, and {held} is there"


@pytest.mark.usefixtures("strace")
def test_commits_that_are_not_synced_are_seen_to_lose(tmp_path: Path) -> None:
    done = calls(tmp_path, "unsynced")
    lost = 0
    for seed in range(CUTS):
        try:
            reported, held = cut(done, tmp_path / "cut", seed)
        except AssertionError:  # rows in the journal on tables that lack what came before
            held, reported = -1, 0
        lost += held < reported
    assert lost > CUTS // 10
