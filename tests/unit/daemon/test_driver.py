"""What the driver does when a step fails."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from crdtsyncd.backup import Backups
from crdtsyncd.driver import Driver

from crdtsync.core.inputs import Tick
from crdtsync.errors import StorageError


async def test_an_error_of_the_disk_in_the_middle_of_a_step_ends_it_and_is_no_bug() -> None:
    """Whoever reads brings rows of the journal into their tables: that may fail."""
    driver = Driver.__new__(Driver)
    driver.failed = asyncio.get_running_loop().create_future()
    driver._recover(Tick(), StorageError("the disk is gone"))
    assert driver.failed.result() == "the disk is gone"


def test_leftovers_that_cannot_be_looked_for_keep_nobody_from_starting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(Path, "glob", fail)
    Backups(tmp_path / "db", dict, 0)
