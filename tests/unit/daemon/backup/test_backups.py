"""Backups of a running database: one at a time, each gone with the connection that asked for it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from crdtsyncd.backup.backup import Backups

from crdtsync.errors import InvalidRequest, QuotaExceeded


@pytest.fixture
def backups(tmp_path: Path) -> Iterator[Backups]:
    with closing(sqlite3.connect(tmp_path / "crdtsync.db")) as db:
        db.execute("CREATE TABLE t (x)")
    made = Backups(tmp_path / "crdtsync.db", dict, 0)
    yield made
    made.close()
    assert list(tmp_path.glob("backup-*")) == []


def test_a_second_one_is_refused_until_the_first_is_given_up(backups: Backups) -> None:
    backups.serve(1, {})
    with pytest.raises(QuotaExceeded, match="another backup is being taken"):
        backups.serve(2, {})
    backups.serve(1, {})  # who asks anew begins anew
    backups.closed(1)
    backups.serve(2, {})
    backups.serve(2, {"end": True})
    backups.serve(3, {})


@pytest.mark.parametrize("offset", [-1, "0", 0.0, True])
def test_nobody_reads_what_another_has_begun_nor_from_nowhere(backups: Backups, offset: object) -> None:
    backups.serve(1, {})
    with pytest.raises(InvalidRequest, match="a backup that this connection has begun"):
        backups.serve(2, {"offset": 0})
    with pytest.raises(InvalidRequest, match="offset must be a number"):
        backups.serve(1, {"offset": offset})
