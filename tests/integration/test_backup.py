"""Backup and restore: consistent while everything goes on, nothing lost that others have, no writer used again."""

from __future__ import annotations

import shutil
import threading
import time
from pathlib import Path

import pytest
from crdtsyncd.storage.writer_mark import machine_id

from tests.harness import wait_until, wait_until_equal
from tests.harness.shell import Shell
from tests.integration.test_clusters import hosts, invite, run, wait_connected

__all__ = ["hosts"]

pytestmark = pytest.mark.integration


def test_a_backup_during_writes_shows_one_moment(daemon, make_daemon, tmp_path):
    """Pairs of keys are written in one batch: a backup that shows half of one is none."""
    client, stop, slowest = daemon.client(), threading.Event(), [0.0]
    for first in range(0, 3000, 500):
        with client.batch() as batch:
            for n in range(first, first + 500):
                batch.set(f"fill/{n}", "x" * 1000)
    written = []

    def write() -> None:
        n = 0
        with daemon.client("writer") as writer:
            while not stop.is_set():
                started = time.monotonic()
                with writer.batch() as batch:
                    batch.set("left", n)
                    batch.set("right", n)
                slowest[0] = max(slowest[0], time.monotonic() - started)
                written.append(n)
                n += 1

    thread = threading.Thread(target=write)
    thread.start()
    try:
        wait_until(lambda: len(written) > 50)
        seen: list[float] = []
        before = len(written)

        def progress(done: int, total: int) -> None:
            if not seen:  # however fast the backup is
                wait_until(lambda: len(written) > before)
            seen.append(done / total)

        about = client.backup(tmp_path / "backup", progress=progress)
        after = len(written)
    finally:
        stop.set()
        thread.join()
    assert seen == sorted(seen)
    assert seen[-1] == 1.0
    assert (tmp_path / "backup").stat().st_mode & 0o777 == 0o600
    assert not list(daemon.data.glob("backup-*"))
    assert about["bytes"] > 3_000_000
    other = make_daemon(start=False)
    Shell(other.socket, tmp_path).ok("restore", "backup", "--data-dir", str(other.data), "--new-node")
    other.start()
    restored = other.client()
    assert restored.get("left") == restored.get("right")
    assert before - 1 <= restored.get("left") <= after
    assert len(restored.keys("fill/")) == 3000
    assert after > before, "writes went on meanwhile"


def test_a_node_that_lost_its_directory_comes_back_with_all_that_others_have(cluster, tmp_path):
    lost, *others = cluster.daemons
    clients = [daemon.client() for daemon in cluster]
    for client in clients:
        client.append("log", "before")
    wait_until_equal(cluster)
    crdtsync = Shell(lost.socket, tmp_path)
    assert "wrote backup" in crdtsync.ok("backup", "backup")
    for client in clients:
        client.append("log", "after")
    wait_until_equal(cluster)
    writers = set(lost.space()["version_vector"])
    lost.stop()
    shutil.rmtree(lost.data)
    for client in clients[1:]:
        client.append("log", "while away")
    assert "restored" in crdtsync.ok("restore", "backup", "--data-dir", str(lost.data))
    lost.start()
    wait_until_equal(cluster)
    node = lost.status()["node"]["id"]
    state = lost.client()
    state.append("log", "again")
    wait_until_equal(cluster)
    assert len(state.log("log")) == 9
    assert len(others[0].client().log("log")) == 9
    new_writers = set(lost.space()["version_vector"]) - writers
    assert len(new_writers) == 1, "a writer of its own, and none that was used before"
    assert {peer["id"] for peer in others[0].status()["peers"]} >= {node}
    assert not lost.alarms()
    assert not others[0].alarms()


def test_what_only_the_backup_had_is_there_again(make_daemon, tmp_path):
    first = make_daemon()
    first.client().set("only/here", 1)
    crdtsync = Shell(first.socket, tmp_path)
    crdtsync.ok("backup", "backup")
    first.stop()
    shutil.rmtree(first.data)
    crdtsync.ok("restore", "backup", "--data-dir", str(first.data))
    first.start()
    assert first.client().get("only/here") == 1


def test_restore_refuses_what_would_do_harm(daemon, tmp_path):
    crdtsync = Shell(daemon.socket, tmp_path)
    daemon.client().set("key", 1)
    crdtsync.ok("backup", "backup")
    assert crdtsync("backup", "backup").status == 74, "an older backup is not written over"
    where = ("--data-dir", str(daemon.data))
    running = crdtsync("restore", "backup", *where, "--force")
    assert (running.status, "stop it first" in running.err) == (2, True)
    daemon.client().set("key", 2)
    daemon.stop()
    there = crdtsync("restore", "backup", *where)
    assert (there.status, "--force" in there.err) == (2, True)
    content = (tmp_path / "backup").read_bytes()
    for name, damaged in {
        "flipped": content[:6000] + bytes([content[6000] ^ 1]) + content[6001:],
        "cut": content[:-1],
        "strange": b"something else" * 1000,
        "newer": content.replace(b"crdtsync backup 1\n", b"crdtsync backup 9\n", 1),
        "empty": b"",
    }.items():
        (tmp_path / name).write_bytes(damaged)
        done = crdtsync("restore", name, *where, "--force")
        assert (name, done.status) == (name, 4), done.err
        assert done.err.count("\n") == 1
    daemon.start()
    assert daemon.client().get("key") == 2, "nothing of that touched the database"
    daemon.stop()
    said = crdtsync.ok("restore", "backup", *where, "--force")
    assert "replaced-" in said
    daemon.start()
    assert daemon.client().get("key") == 1
    (aside,) = daemon.data.glob("replaced-*")
    assert (aside / "crdtsync.db").exists()


def test_a_backup_of_which_nobody_waits_for_the_end_leaves_nothing(daemon):
    client = daemon.client()
    for n in range(200):
        client.set(f"fill/{n}", "x" * 10_000)
    with daemon.raw("backup") as agent:
        agent.call("backup")
        wait_until(lambda: list(daemon.data.glob("backup-*")))
    wait_until(lambda: not list(daemon.data.glob("backup-*")), what="the copy is removed")


def test_two_backups_at_once_are_refused(daemon):
    with daemon.raw("one") as one, daemon.raw("two") as two:
        one.call("backup")
        with pytest.raises(Exception, match="another backup"):
            two.call("backup")
        one.call("backup", end=True)
        two.call("backup")


async def test_the_asyncio_client_takes_backups_too(daemon, tmp_path):
    from crdtsync import AsyncClient

    async with AsyncClient(socket=daemon.socket) as state:
        await state.set("key", 1)
        about = await state.backup(tmp_path / "backup")
        assert "crdtsync_info" in await state.metrics()
        assert await state.log_level() == "info"
    assert about["name"] == daemon.name


def test_a_member_of_a_cluster_that_lost_its_directory_is_one_again(hosts, tmp_path):
    """The backup holds its key: the others know it by that."""
    first, second = hosts.cluster("host-a", "host-b")
    first.client().set("before", 1)
    wait_until_equal([first, second])
    crdtsync = Shell(second.socket, tmp_path)
    (about,) = crdtsync.json("backup", "backup", "--json")
    assert "identity" not in about
    assert "PRIVATE KEY" not in str(about)
    node = second.status()["node"]["id"]
    second.stop()
    first.client().set("while away", 1)
    shutil.rmtree(second.data)
    crdtsync.ok("restore", "backup", "--data-dir", str(second.data))
    assert (second.data / "node.key").stat().st_mode & 0o777 == 0o600
    second.start()
    wait_connected([first, second])
    wait_until_equal([first, second])
    assert second.status()["node"]["id"] == node
    second.client().set("again", 1)
    wait_until_equal([first, second])
    assert not first.alarms()
    assert not second.alarms()


def test_as_another_node_it_has_another_key(hosts, tmp_path):
    (first,) = hosts.cluster("host-a")
    first.client().set("key", 1)
    crdtsync = Shell(first.socket, tmp_path)
    crdtsync.ok("backup", "backup")
    node = first.status()["node"]["id"]
    first.stop()
    key = (first.data / "node.key").read_bytes()
    crdtsync.ok("restore", "backup", "--data-dir", str(first.data), "--force", "--new-node")
    first.start()
    assert first.status()["node"]["id"] != node
    assert (first.data / "node.key").read_bytes() != key
    assert first.client().get("key") == 1
    (aside,) = first.data.glob("replaced-*")
    assert (aside / "node.key").read_bytes() == key


def move_to_another_machine(backup: Path) -> None:
    """Make a backup one of another machine than this."""
    content, here = backup.read_bytes(), machine_id().encode()
    assert content.count(here) >= 1
    backup.write_bytes(content.replace(here, here[::-1], 1))


def test_on_another_machine_it_joins_again_and_brings_along_what_only_it_had_once(hosts, tmp_path):
    first, second = hosts.cluster("host-a", "host-b")
    first.client().set("shared", 1)
    first.client().append("log", "first")
    first.client().incr("count", 2, w="all")
    first.stop()
    second.client().append("log", "second")
    second.client().incr("count", 3)
    second.client().set("only/there", 1)
    Shell(second.socket, tmp_path).ok("backup", "backup")
    node = second.status()["node"]["id"]
    second.close()
    first.start()
    run(first, "cluster", "remove", "host-b")
    first.client().set("while away", 1)
    move_to_another_machine(tmp_path / "backup")
    third = hosts.start("host-c", start=False)
    crdtsync = Shell(third.socket, tmp_path)
    assert "another node" in crdtsync.ok("restore", "backup", "--data-dir", str(third.data))
    third.start()
    assert third.status()["node"]["id"] != node
    assert third.client().get("only/there") == 1, "before it has joined, too"
    told = run(third, "cluster", "join", invite(first), "--merge")
    assert "kept" in told
    assert "access rules" not in told, "for they have come along"
    wait_connected([first, third])
    wait_until_equal([first, third])
    for daemon in (first, third):
        state = daemon.client()
        assert [state.get(key) for key in ("shared", "only/there", "while away")] == [1, 1, 1]
        assert state.entry("shared").siblings == []
        assert (state.log("log"), state.get("count")) == (["first", "second"], 5)
        assert not daemon.alarms()
    third.client().append("log", "third", w="all")
    third.kill()
    third.start()
    wait_connected([first, third])
    assert third.client().log("log") == first.client().log("log") == ["first", "second", "third"]


def test_in_the_place_of_a_machine_that_never_comes_back_it_is_the_same_node(hosts, tmp_path):
    first, second = hosts.cluster("host-a", "host-b")
    second.client().append("log", "before")
    wait_until_equal([first, second])
    Shell(second.socket, tmp_path).ok("backup", "backup")
    second.client().append("log", "after the backup", w="all")
    writers = set(second.space()["version_vector"])
    before = second.status()["node"]
    second.kill()
    shutil.rmtree(second.base)
    move_to_another_machine(tmp_path / "backup")
    again = hosts.start("host-b", start=False)
    Shell(again.socket, tmp_path).ok("restore", "backup", "--data-dir", str(again.data), "--same-node")
    again.start()
    wait_connected([first, again])
    wait_until_equal([first, again])
    assert again.status()["node"]["id"] == before["id"]
    assert again.client().log("log") == ["before", "after the backup"]
    again.client().append("log", "again", w="all")
    wait_until_equal([first, again])
    assert len(set(again.space()["version_vector"]) - writers) == 1, "a writer of its own, and none used before"
    assert not first.alarms()
    assert not again.alarms()
