"""``agent create --file``: the key is on disk before any node knows of it, and never an agent without a key."""

from __future__ import annotations

import errno
import os
from contextlib import contextmanager
from pathlib import Path

import pytest
from crdtsyncd.cli.commands.cluster import agents

from crdtsync.errors import DaemonUnavailable, InvalidRequest, NotAllowed, Timeout
from crdtsync.wire.agent_keys import decode_agent_key, hash_of_key


class Daemon:
    """What the command asks of it. ``error``: how it answers."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.error: Exception | None = None
        self.made: list[str] = []

    def agent_create(self, name: str, key: str | None = None) -> dict[str, object]:
        assert self.path.read_text() == f"{key}\n", "the file came first"
        self.made.append(name)
        if self.error is not None:
            raise self.error
        return {"name": name, "key": None, "token": "c1.x"}


@pytest.fixture
def daemon(monkeypatch, tmp_path):
    found = Daemon(tmp_path / "critic.key")

    @contextmanager
    def connect(_settings):
        yield found

    monkeypatch.setattr(agents, "connect", connect)
    return found


def test_the_file_holds_a_key_of_the_agent_that_only_its_owner_may_read(crdtsync, daemon):
    done = crdtsync("agent", "create", "critic", "--file", str(daemon.path))
    assert (done.status, done.err, daemon.made) == (0, "", ["critic"])
    key = daemon.path.read_text().rstrip("\n")
    assert decode_agent_key(key)[0] == "critic"
    assert key not in done.out
    assert daemon.path.stat().st_mode & 0o777 == 0o600


def test_on_a_full_disk_there_is_neither_file_nor_agent(crdtsync, daemon, monkeypatch):
    def full(_file):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    done = crdtsync("agent", "create", "critic", "--file", str(daemon.path))
    assert (done.status, daemon.made) == (74, [])
    assert "No space left" in done.err
    assert not daemon.path.exists()


def test_a_refusal_leaves_no_file(crdtsync, daemon):
    daemon.error = NotAllowed("only root")
    assert crdtsync("agent", "create", "critic", "--file", str(daemon.path)).status == 4
    assert not daemon.path.exists()


@pytest.mark.parametrize("error", [DaemonUnavailable("gone"), Timeout("late")])
def test_who_cannot_know_whether_the_agent_was_made_is_told_what_to_do(crdtsync, daemon, error):
    daemon.error = error
    done = crdtsync("agent", "create", "critic", "--file", str(daemon.path))
    assert done.status == error.exit_status
    assert f"if crdtsync agent list shows critic, its key is in {daemon.path}" in done.err
    assert daemon.path.exists()


def test_without_a_daemon_there_is_no_file(crdtsync, tmp_path):
    path = tmp_path / "critic.key"
    assert crdtsync("agent", "create", "critic", "--file", str(path)).status == 3
    assert not path.exists()


def test_a_file_that_is_there_is_left_alone(crdtsync, daemon):
    daemon.path.write_text("mine")
    assert crdtsync("agent", "create", "critic", "--file", str(daemon.path)).status == 74
    assert (daemon.path.read_text(), daemon.made) == ("mine", [])


def test_the_key_of_another_agent_is_refused_before_anything_is_sent():
    with pytest.raises(InvalidRequest, match="the key is of an agent critic, not of other"):
        hash_of_key("ak1." + "A" * 43 + ".critic", "other")
