"""Root restores into the directory of a service's user, and writes backups into directories of others.

Whoever owns such a directory can have put anything there. What root must not do for them: open, change or give away
what they cannot open themselves.
"""

from __future__ import annotations

import os
import shutil
import struct
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.harness.shell import Shell

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user"),
]

SERVICE = 2000
SECRET = b"root's alone"


class Place(NamedTuple):
    """Root's files, and the directory of the service's user."""

    root: Path
    data: Path

    def secret(self, name: str) -> Path:
        path = self.root / name
        path.write_bytes(SECRET)
        path.chmod(0o600)
        return path

    def is_untouched(self, name: str) -> bool:
        found = (self.root / name).stat()
        whole = (self.root / name).read_bytes() == SECRET
        return whole and (found.st_uid, found.st_gid, found.st_mode & 0o777, found.st_nlink) == (0, 0, 0o600, 1)


@pytest.fixture
def place() -> Iterator[Place]:
    """Beside ``tmp_path``, which no other user reaches."""
    base = Path(tempfile.mkdtemp())
    base.chmod(0o755)
    root, data = base / "root", base / "data"
    for directory, owner in ((root, 0), (data, SERVICE)):
        directory.mkdir()
        directory.chmod(0o700 if owner else 0o755)
        os.chown(directory, owner, owner)
    yield Place(root, data)
    shutil.rmtree(base)


@pytest.fixture
def shell(daemon, tmp_path) -> Shell:
    """With a backup of a database that holds something."""
    shell = Shell(daemon.socket, tmp_path)
    with daemon.client() as client:
        client.set("k", "kept")
    shell.ok("backup", "backup")
    daemon.stop()
    return shell


def files_of(directory: Path) -> set[int]:
    return {path.lstat().st_uid for path in directory.rglob("*")}


def test_what_is_restored_belongs_to_who_owns_the_directory(shell, place, make_daemon):
    shell.ok("restore", "backup", "--data-dir", str(place.data))
    assert files_of(place.data) == {SERVICE}
    shell.ok("restore", "backup", "--data-dir", str(place.data), "--force")
    assert len(list(place.data.glob("replaced-*"))) == 1
    assert files_of(place.data) == {SERVICE}
    assert {path.stat().st_mode & 0o777 for path in place.data.iterdir()} <= {0o600, 0o700}


LINKS = (
    "lock", "crdtsync.db", "crdtsync.db.restoring", "crdtsync.db-wal", "crdtsync.db-commits", "node.key", "node.crt",
    "crdtsync.db.restoring-wal", "crdtsync.db.restoring-journal", "crdtsync.db.restoring-shm",
)  # fmt: skip


@pytest.mark.parametrize("options", [(), ("--new-node",), ("--same-node",)], ids=str)
def test_links_that_the_services_user_has_planted_lead_nowhere(shell, place, options):
    """Each leads to a file of root's, once to one that is there and once to one that root would make."""
    for name in LINKS:
        (place.data / name).symlink_to(place.secret(name))
    shell("restore", "backup", "--data-dir", str(place.data), "--force", *options)
    assert [name for name in LINKS if not place.is_untouched(name)] == []
    for path in place.data.iterdir():
        path.unlink() if not path.is_dir() or path.is_symlink() else shutil.rmtree(path)
    for name in LINKS:
        (place.data / name).symlink_to(place.root / f"new-{name}")
    shell("restore", "backup", "--data-dir", str(place.data), "--force", *options)
    assert not list(place.root.glob("new-*"))


def test_a_planted_link_does_not_keep_root_from_restoring(shell, place, make_daemon):
    (place.data / "crdtsync.db.restoring").symlink_to(place.secret("secret"))
    (place.data / "crdtsync.db").symlink_to(place.root / "secret")
    shell.ok("restore", "backup", "--data-dir", str(place.data), "--force")
    assert not (place.data / "crdtsync.db").is_symlink()
    assert place.is_untouched("secret")


@pytest.mark.parametrize("leads", ["straight", "by a link of root's", "round"])
def test_a_link_of_the_services_user_to_a_directory_of_roots_leads_root_nowhere(shell, place, leads, tmp_path):
    """It has the rights of who made the link, also where another link leads to that one."""
    link = place.data / "state"
    link.symlink_to(link if leads == "round" else place.root)
    os.chown(link, SERVICE, SERVICE, follow_symlinks=False)
    named = link
    if leads == "by a link of root's":
        named = place.root.parent / "link"
        named.symlink_to("root/../data/state")
    done = shell("restore", "backup", "--data-dir", str(named))
    assert done.status != 0
    assert list(place.root.iterdir()) == []


def test_below_a_directory_of_the_services_user_root_has_that_users_rights(shell, place):
    deep = place.data / "deep"
    deep.mkdir()  # root's
    assert "Permission denied" in shell("restore", "backup", "--data-dir", str(deep)).err
    assert list(deep.iterdir()) == []
    shell.ok("restore", "backup", "--data-dir", str(place.data / "new" / "one"))
    assert files_of(place.data / "new") == {SERVICE}
    own = place.root.parent / "link"
    own.symlink_to("root/new")
    shell.ok("restore", "backup", "--data-dir", str(own))
    assert files_of(place.root) == {0}


def test_where_everybody_can_write_root_restores_nothing(shell, place):
    place.data.chmod(0o1777)
    os.chown(place.data, 0, 0)
    done = shell("restore", "backup", "--data-dir", str(place.data))
    assert done.status != 0
    assert f"others can write into {place.data}" in done.err
    assert list(place.data.iterdir()) == []


@pytest.mark.parametrize("way", ["group", "list"])
def test_where_a_group_can_write_root_restores_nothing(shell, place, way):
    """A list of rights (acl(5)) shows in the mode as what the group may do, also where root's own group may not."""
    os.chown(place.data, 0, SERVICE if way == "group" else 0)
    place.data.chmod(0o770)
    if way == "list":
        rows = [(1, 7, -1), (2, 7, SERVICE), (4, 0, -1), (16, 7, -1), (32, 0, -1)]  # owner, user, group, mask, others
        rights = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *row[:2], row[2] % 2**32) for row in rows)
        try:
            os.setxattr(place.data, "system.posix_acl_access", rights)
        except OSError:
            pytest.skip("this file system keeps no lists of rights")
    done = shell("restore", "backup", "--data-dir", str(place.data))
    assert done.status != 0
    assert f"others can write into {place.data}" in done.err
    assert list(place.data.iterdir()) == []


def test_the_group_of_root_itself_keeps_nobody_from_restoring(shell, place):
    os.chown(place.data, 0, 0)
    place.data.chmod(0o770)
    shell.ok("restore", "backup", "--data-dir", str(place.data))


def test_what_is_no_file_is_not_waited_for(shell, place):
    os.mkfifo(place.root / "fifo")
    done = shell("restore", str(place.root / "fifo"), "--data-dir", str(place.data))
    assert done.status != 0
    assert "fifo is no file" in done.err
    assert "is no file" in shell("restore", "/dev/zero", "--data-dir", str(place.data)).err
    os.mkfifo(place.data / "crdtsync.db")
    done = shell("doctor", "--data-dir", str(place.data))
    assert "crdtsync.db cannot be read: it is no file" in done.out


def test_a_link_in_the_place_of_the_lock_is_told(shell, place):
    (place.data / "lock").symlink_to(place.secret("secret"))
    done = shell("restore", "backup", "--data-dir", str(place.data))
    assert f"{place.data / 'lock'} is a symbolic link" in done.err
    assert place.is_untouched("secret")


def test_a_blob_goes_into_no_file_of_others(daemon, place, tmp_path):
    """In a directory of theirs, and not through what they have put there."""
    shell = Shell(daemon.socket, tmp_path)
    shell.ok("blob", "put", "k", "-", stdin=b"content")
    (place.data / "out.partial").symlink_to(place.secret("secret"))
    assert "is in the way" in shell("blob", "get", "k", "-o", str(place.data / "out")).err
    assert place.is_untouched("secret")
    (place.data / "out.partial").unlink()
    os.mkfifo(place.data / "out.partial")
    assert "is in the way" in shell("blob", "get", "k", "-o", str(place.data / "out")).err
    assert (place.data / "out.partial").exists(), "what is theirs is left"
    (place.data / "out.partial").unlink()
    os.mkfifo(place.data / "fifo")
    assert "is no file" in shell("blob", "get", "k", "-o", str(place.data / "fifo")).err
    assert (place.data / "fifo").is_fifo()


def test_a_backup_into_a_directory_of_others_goes_into_no_file_of_theirs(daemon, place, tmp_path):
    shell = Shell(daemon.socket, tmp_path)
    file, partial = place.data / "backup", place.data / "backup.partial"
    partial.write_bytes(b"")
    partial.chmod(0o666)
    os.chown(partial, SERVICE, SERVICE)
    with partial.open("rb") as theirs:
        done = shell("backup", str(file))
        assert done.status != 0
        assert "is in the way, and is not yours" in done.err
        assert theirs.read() == b""
    partial.unlink()
    partial.symlink_to(place.secret("secret"))
    assert shell("backup", str(file)).status != 0
    assert place.is_untouched("secret")
    partial.unlink()
    partial.write_bytes(b"of one that was killed")
    partial.chmod(0o644)
    shell.ok("backup", str(file))
    assert (file.stat().st_mode & 0o777, file.stat().st_uid) == (0o600, 0)
    assert not partial.exists()
