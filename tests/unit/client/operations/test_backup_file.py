"""The file of a backup where the disk is full."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from crdtsync.client.operations.backup_file import BackupFile


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_told_with_the_file_and_leaves_nothing(tmp_path: Path) -> None:
    file = BackupFile(tmp_path / "backup", {"about": {}})
    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, file._file.fileno())
    os.close(full)
    with pytest.raises(OSError, match="backup") as error:
        file.write(b"x" * 2**20)
    assert error.value.errno == errno.ENOSPC
    assert error.value.filename == str(tmp_path / "backup")
    file.discard()
    assert list(tmp_path.iterdir()) == []
