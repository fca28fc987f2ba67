"""A disk that is full, nearly full, or broken: nothing acknowledged is lost, and service comes back by itself."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import msgpack
import pytest
from crdtsyncd.storage.database import Store

from crdtsync.client.blocking.client import Session
from crdtsync.client.blocking.methods.forks import Carrying
from crdtsync.core.storage.rows import ChangeRow, EntryRow
from crdtsync.core.storage.write_batch import WriteBatch
from crdtsync.errors import NoSpace
from tests.harness import Daemon, RawAgent, RawError, wait_until, wait_until_equal
from tests.harness.space import fill, free_bytes
from tests.harness.tracing import CannotTraceError, inject, stop
from tests.integration.witness import assert_clean, assert_sentence

pytestmark = pytest.mark.integration

MIB = 1024 * 1024
FAILED = 1


@pytest.fixture
def small_disk() -> Iterator[Callable[[int], Path]]:
    """Make directories that are file systems of their own, of so many bytes."""
    if os.geteuid() != 0 or sys.platform != "linux":
        pytest.skip("needs root, to mount a small file system")
    mounted: list[Path] = []

    def make(size_bytes: int) -> Path:
        place = Path(f"/tmp/csd{os.getpid()}-{len(mounted)}")
        place.mkdir()
        if subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={size_bytes}", "crdtsync-test", place], check=False
        ).returncode:
            place.rmdir()
            pytest.skip("cannot mount here")
        mounted.append(place)
        return place

    try:
        yield make
    finally:
        for place in mounted:
            subprocess.run(["umount", "-l", place], check=False)
            place.rmdir()


def write_until_refused(agent: RawAgent, prefix: str, size_bytes: int, count_max: int = 3000) -> tuple[int, RawError]:
    """How many writes were acknowledged before the first refusal."""
    for done in range(count_max):
        try:
            agent.write("set", key=f"{prefix}/{done}", value=os.urandom(size_bytes))
        except RawError as refusal:
            return done, refusal
    raise AssertionError(f"{count_max} writes of {size_bytes} bytes, and none was refused")


def keys(agent: RawAgent, prefix: str) -> int:
    count, start = 0, ""
    while True:
        page = agent.call("scan", prefix=prefix, start=start)
        count += len(page["items"])
        if not page["more"]:
            return count
        start = page["items"][-1][0]


def refusal_of(agent: RawAgent, op: str, **args: Any) -> str | None:
    try:
        agent.write(op, **args)
    except RawError as refusal:
        return refusal.code
    return None


def digest(daemon: Daemon) -> tuple[Any, ...]:
    space = daemon.space()
    return space["version_vector"], space["digest"], space["keys"], space["entries"]


def test_when_space_runs_low_writes_are_refused_and_all_else_goes_on(small_disk: Callable[[int], Path]) -> None:
    disk = small_disk(64 * MIB)
    with Daemon(data_dir=str(disk / "data"), free_bytes_min=8 * MIB, ballast_bytes=4 * MIB) as daemon:
        with daemon.raw("writer") as agent, daemon.raw("watcher") as watcher:
            agent.write("set", key="before", value=1)
            watch = watcher.send("watch", prefix="after/")
            watcher.result(watch)
            wait_until((disk / "data" / "ballast").exists, what="the ballast is made")
            filling = fill(disk, leave_bytes=6 * MIB)
            daemon.wait_log("disk_low")
            with pytest.raises(RawError) as refusal:
                agent.write("set", key="refused", value=1)
            assert refusal.value.code == "no_space"
            assert_sentence(refusal.value.fields["message"])
            assert "free some space" in refusal.value.fields["message"]
            assert msgpack.unpackb(agent.call("get", key="before")["value"]) == 1
            assert agent.call("get", key="refused") is None
            assert daemon.status()["node"]["state"] == "read-only"
            assert "no_space" in daemon.alarms()
            agent.write("purge", pattern="before")
            wait_until(lambda: agent.call("purges")["items"][0]["done"], what="what was written before is gone")
            fill(disk, leave_bytes=3 * MIB)
            wait_until(lambda: not (disk / "data" / "ballast").exists(), what="the ballast is given up")
            fill(disk, leave_bytes=3 * MIB)
            wait_until(lambda: refusal_of(agent, "delete", key="before") == "no_space", what="nothing is let through")
            filling.unlink()
            daemon.wait_log("disk_recovered")
            agent.write("set", key="after/1", value=2)
            seen: list[str] = []
            while "after/1" not in seen:
                request, _, events = watcher.receive()
                assert request == watch
                seen += [event["key"] for event in events]
            assert daemon.status()["node"]["state"] == "ready"
            assert daemon.alarms() == []
        assert_clean(daemon)


def test_blobs_checkpoints_and_restores_go_on_when_there_is_space_again(small_disk: Callable[[int], Path]) -> None:
    """The disk fills in the middle of a put, then while a checkpoint and a restore are asked for."""
    disk = small_disk(96 * MIB)
    content = Random(1).randbytes(8 * MIB)
    started = Daemon(data_dir=str(disk / "data"), free_bytes_min=8 * MIB, ballast_bytes=0, log_bytes_max=MIB)
    with started as daemon, daemon.client() as client:
        client.put_blob("kept", content[: 2 * MIB])
        client.set("plan", "before")
        client.checkpoint("before")
        client.checkpoint_policy("often", every=1)
        client.delete("kept")
        client.set("plan", "after")
        fillings: list[Path] = []

        def fill_up(done: int, _total: int | None) -> None:
            if done >= 4 * MIB and not fillings:
                fillings.append(fill(disk, leave_bytes=4 * MIB))
                daemon.wait_log("disk_low")

        with pytest.raises(NoSpace):
            client.put_blob("large", content, progress=fill_up)
        for refused in (lambda: client.checkpoint("full"), lambda: client.restore("before")):
            with pytest.raises(NoSpace):
                refused()
        assert (client.get("large"), client.get("plan")) == (None, "after")
        fillings[0].unlink()
        daemon.wait_log("disk_recovered")
        client.put_blob("large", content)
        done = client.restore("before")
        assert (sorted(done.restored), done.removed, done.left) == (["kept", "plan"], ["large"], {})
        assert client.get("plan") == "before"
        blob = client.get_blob("kept")
        assert blob is not None
        assert blob.read() == content[: 2 * MIB]
        client.checkpoint("after")
        wait_until(lambda: client.checkpoints()[-1].name.startswith("often-"), what="automatic ones are made again")
        assert client.verify_checkpoint("after").damaged == {}


def test_a_restore_and_a_merge_that_the_disk_stops_half_way_go_on_when_there_is_space_again(
    small_disk: Callable[[int], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of them is several changes; the disk fills after the first one. What is done stays, and reads go on."""
    disk = small_disk(96 * MIB)
    names = [f"k/{n:03}" for n in range(600)]
    filling: list[Path] = []

    def fill_up(*_told: object) -> None:
        if not filling:
            filling.append(fill(disk, leave_bytes=4 * MIB))
            wait_until(lambda: daemon.status()["node"]["state"] == "read-only", what="the daemon has noticed")

    def make_room() -> None:
        filling.pop().unlink()
        wait_until(lambda: daemon.status()["node"]["state"] == "ready", what="writes are taken again")

    def write_all(session: Session, value: str) -> None:
        for start in range(0, len(names), 200):
            with session.batch() as batch:
                for name in names[start : start + 200]:
                    batch.set(name, value)

    def values(session: Session) -> list[list[object]]:
        return [sorted([entry.value, *(one.value for one in entry.siblings)]) for entry in session.entries("k/")]

    old, new, tried = (f"{what}-" + "x" * 2000 for what in ("old", "new", "tried"))
    started = Daemon(data_dir=str(disk / "data"), free_bytes_min=8 * MIB, ballast_bytes=0)
    with started as daemon, daemon.client() as client:
        write_all(client, old)
        client.checkpoint("before")
        client.fork("trial")
        trial = client.session(space="trial")
        write_all(trial, tried)
        write_all(client, new)

        with pytest.raises(NoSpace):
            client.restore("before", progress=fill_up)
        found = values(client)
        assert [old] in found
        assert [new] in found
        assert client.session(at="checkpoint:before").get(names[0]) == old
        make_room()
        client.restore("before")
        assert values(client) == [[old]] * len(names)

        flush = Carrying.flush

        def flush_and_fill(carrying: Carrying) -> None:
            flush(carrying)
            fill_up()

        monkeypatch.setattr(Carrying, "flush", flush_and_fill)
        with pytest.raises(NoSpace):
            client.merge_space("trial")
        found = values(client)
        assert [old] in found
        assert [old, tried] in found  # both have set it since the fork
        make_room()
        monkeypatch.undo()
        client.merge_space("trial")
        assert values(client) == [[old, tried]] * len(names)
        assert client.merge_space("trial").written == []
        assert_clean(daemon)


def test_the_ballast_is_given_up_when_space_is_very_low_and_made_again(small_disk: Callable[[int], Path]) -> None:
    disk = small_disk(64 * MIB)
    ballast = disk / "data" / "ballast"
    with Daemon(data_dir=str(disk / "data"), free_bytes_min=8 * MIB, ballast_bytes=6 * MIB) as daemon:
        wait_until(ballast.exists, what="the ballast is made")
        assert ballast.stat().st_size == 6 * MIB
        filling = fill(disk, leave_bytes=1 * MIB)
        wait_until(lambda: not ballast.exists(), what="the ballast is given up")
        wait_until(lambda: free_bytes(disk) >= 6 * MIB, what="what it took is free")  # a moment after its name is gone
        filling.unlink()
        wait_until(ballast.exists, what="the ballast is made again")
        with daemon.client() as client:
            client.set("key", 1)
        daemon.stop()
        filling = fill(disk, leave_bytes=0)
        daemon.start()
        with daemon.client() as client:
            assert client.get("key") == 1, "it starts and reads go on, for it has given up the ballast"
            with pytest.raises(NoSpace):
                client.set("key", 2)
            filling.unlink()
            wait_until(lambda: "no_space" not in daemon.alarms(), what="writes are taken again")
            client.set("key", 2)
        assert_clean(daemon)


def test_writing_without_pause_into_a_filling_disk_loses_nothing(small_disk: Callable[[int], Path]) -> None:
    """Nobody else fills the disk: the writes do it themselves, faster than the space is looked at."""
    disk = small_disk(48 * MIB)
    with Daemon(data_dir=str(disk / "data"), free_bytes_min=16 * MIB) as daemon:
        with daemon.raw("writer") as agent:
            done, refusal = write_until_refused(agent, "fill", 100_000)
            assert refusal.code == "no_space"
            assert keys(agent, "fill/") == done
        before = digest(daemon)
        daemon.kill()
        daemon.start()
        assert digest(daemon) == before
        assert_clean(daemon)


def test_peers_changes_are_not_taken_while_space_is_low_and_come_when_it_is_back(
    small_disk: Callable[[int], Path], make_cluster: Callable[..., Any]
) -> None:
    disk = small_disk(128 * MIB)
    with make_cluster(3, start=False) as fleet:
        full, *others = fleet
        full.settings |= {"data_dir": str(disk / "data"), "free_bytes_min": 8 * MIB}
        fleet.start()
        with full.raw() as agent:
            agent.write("set", key="start", value=0)
        wait_until_equal(fleet)
        filling = fill(disk, leave_bytes=4 * MIB)
        full.wait_log("disk_low")
        before = digest(full)
        used = free_bytes(disk)
        for daemon in others:  # more than the credit of a connection, which is 4 MiB
            with daemon.raw() as agent:
                for i in range(80):
                    agent.write("set", key=f"{daemon.name}/{i}", value=os.urandom(100_000))
        wait_until_equal(others)
        assert digest(full) == before, "nothing is taken"
        assert used - free_bytes(disk) < MIB, "and nothing stored"
        with full.raw() as agent, pytest.raises(RawError, match="no_space"):
            agent.write("set", key="refused", value=1)
        with others[0].raw() as agent:  # the others are not held up, and know that one does not hold it
            token = agent.write("set", key="more", value=1, w=2, timeout=10_000)["token"]
            with pytest.raises(RawError, match="timeout"):
                agent.call("wait", token=token, w=3, timeout=500)
        filling.unlink()
        wait_until_equal(fleet)
        with full.raw() as agent:
            agent.write("set", key="end", value=1, w="all", timeout=20_000)
        wait_until_equal(fleet)
        for daemon in fleet:
            assert_clean(daemon)


def test_a_disk_that_is_really_full_refuses_the_batch_whole_and_memory_equals_disk(
    small_disk: Callable[[int], Path],
) -> None:
    """No reserve at all: the commit itself fails with ENOSPC, again and again, in the middle of batches."""
    disk = small_disk(24 * MIB)
    with Daemon(data_dir=str(disk / "data"), free_bytes_min=0, ballast_bytes=0) as daemon:
        with daemon.raw("writer") as agent, daemon.raw("reader") as reader:
            agent.write("set", key="first", value="kept")
            done, refusal = write_until_refused(agent, "fill", 200_000)
            assert refusal.code == "no_space", refusal
            assert_sentence(refusal.fields["message"])
            for i in range(20):
                with pytest.raises(RawError) as again:
                    agent.write(
                        "batch", ops=[["set", {"key": f"lost/{i}/{j}", "value": bin32(300_000)}] for j in range(3)]
                    )
                assert again.value.code == "no_space"
                assert msgpack.unpackb(reader.call("get", key="first")["value"]) == "kept"
            assert keys(reader, "lost/") == 0, "a batch is refused whole"
            assert keys(reader, "fill/") == done, "what was acknowledged is there"
        before = digest(daemon)
        daemon.kill()
        (disk / "room").unlink(missing_ok=True)
        subprocess.run(["mount", "-o", f"remount,size={96 * MIB}", disk], check=True)
        daemon.start()
        assert digest(daemon) == before, "memory was equal to disk"
        with daemon.raw("writer") as agent:
            agent.write("set", key="last", value=1)
            assert keys(agent, "fill/") == done
        assert len(daemon.space()["version_vector"]) == 1
        assert_clean(daemon)


def test_a_full_disk_takes_up_service_when_there_is_space_again(small_disk: Callable[[int], Path]) -> None:
    disk = small_disk(24 * MIB)
    with Daemon(data_dir=str(disk / "data"), free_bytes_min=0) as daemon, daemon.raw("writer") as agent:
        watch = agent.send("watch", prefix="fill/")
        agent.result(watch)
        done, _ = write_until_refused(agent, "fill", 200_000)
        subprocess.run(["mount", "-o", f"remount,size={96 * MIB}", disk], check=True)
        agent.write("set", key="fill/last", value=1)
        assert keys(agent, "fill/") == done + 1
        before = digest(daemon)
        daemon.kill()
        daemon.start()
        assert digest(daemon) == before
        assert_clean(daemon)


def test_a_peer_of_a_really_full_disk_loses_nothing(
    small_disk: Callable[[int], Path], make_cluster: Callable[..., Any]
) -> None:
    disk = small_disk(24 * MIB)
    with make_cluster(2, start=False, free_bytes_min=0) as pair:
        full, other = pair
        full.settings |= {"data_dir": str(disk / "data")}
        pair.start()
        with other.raw() as agent:
            for i in range(160):
                agent.write("set", key=f"k/{i}", value=os.urandom(200_000))
        full.wait_log("commit_refused")
        with full.raw() as agent:

            def lacks_some() -> bool:
                try:
                    return keys(agent, "k/") < 160
                except RawError as refusal:
                    if refusal.code == "no_space":  # asked in the very turn whose commit was refused
                        return False
                    raise

            wait_until(lacks_some, what="a read is answered, and shows what is on disk")
        assert other.space()["keys"] == 160
        subprocess.run(["mount", "-o", f"remount,size={256 * MIB}", disk], check=True)
        wait_until_equal(pair)
        for daemon in pair:
            assert_clean(daemon)


def fill_journal(store: Store, first: int) -> int:
    """Commit writes from this number on until one is refused, since as much waits as may. Returns the last one."""
    last = first - 1
    with suppress(NoSpace):
        for number in range(first, 100):
            store.commit(one_write(number, bytes(20_000)))
            last = number
    return last


def test_what_the_journal_holds_is_read_on_a_full_disk_and_comes_into_the_tables_when_there_is_space(
    small_disk: Callable[[int], Path], tmp_path: Path
) -> None:
    disk = small_disk(16 * MIB)
    (disk / "run").mkdir()
    store = Store(disk / "data", disk / "run")
    try:
        made = WriteBatch()
        made.spaces.append((1, "default", 0))
        store.commit(made)
        for number in range(1, 40):
            store.commit(one_write(number, bytes(20_000)))
        assert store._journal.pending
        filler = fill(disk, 0)
        assert not store.settle(), "there is no room for it"
        assert [entry.dot.seq for entry in store.entries(1)] == list(range(1, 40))
        last = fill_journal(store, 40)
        assert 40 < last < 99
        assert [entry.dot.seq for entry in store.entries(1)] == list(range(1, last + 1))
        assert store._connection.in_transaction, "read from what cannot be committed"
        shutil.copytree(disk / "data", tmp_path / "data")
        filler.unlink()
        store.commit(one_write(last + 1, bytes(20_000)))
        assert [entry.dot.seq for entry in store.entries(1)] == list(range(1, last + 2))
        assert store.settle(), "there is room again"
    finally:
        store.close()
    (tmp_path / "run").mkdir()
    store = Store(tmp_path / "data", tmp_path / "run")  # what a process left that was killed meanwhile
    assert [entry.dot.seq for entry in store.entries(1)] == list(range(1, last + 1))
    store.close()


def one_write(number: int, value: bytes) -> WriteBatch:
    made = WriteBatch()
    made.changes.append(ChangeRow(number, 1, 5, number, bytes(16), b"body", number))
    made.entries.append(EntryRow(number, 1, 5, number, 0, f"k{number}", None, 0, 1, "agent", value, bytes(16), None))
    return made


def bin32(size_bytes: int) -> bytes:
    data = os.urandom(size_bytes)
    return b"\xc6" + len(data).to_bytes(4, "big") + data


def failing(strace: str, daemon: Daemon, fault: str) -> subprocess.Popen[bytes]:
    """Have its system calls fail."""
    try:
        return inject(strace, daemon, fault)
    except CannotTraceError as error:
        pytest.skip(f"strace cannot attach here: {error}")


# -- a disk that is broken ---------------------------------------------------------------------------------------------


def test_a_limit_on_the_size_of_files_acknowledges_nothing_falsely(daemon: Daemon) -> None:
    """EFBIG is no fault that freeing space mends: the daemon says so, and ends or refuses; what it said is true."""
    resource.prlimit(daemon.pid, resource.RLIMIT_FSIZE, (2 * MIB, 2 * MIB))
    done = 0
    with daemon.raw("writer") as agent:
        try:
            for _ in range(200):
                agent.write("set", key=f"fill/{done}", value=os.urandom(100_000))
                done += 1
        except RawError as refusal:
            assert refusal.code in ("no_space", "storage")  # noqa: PT017
        except (EOFError, OSError):
            pass
    assert 0 < done < 200
    if daemon.is_running and daemon.log_events("storage_failed"):
        assert daemon.wait_exit() == FAILED
    if not daemon.is_running:
        assert_sentence(daemon.log_lines()[-1])
        assert "disk" in daemon.log_lines()[-1]
    daemon.kill()
    daemon.start()
    with daemon.raw() as agent:
        assert keys(agent, "fill/") >= done
    assert_clean(daemon)


def test_a_backup_onto_the_disk_of_the_node_leaves_it_room(small_disk: Callable[[int], Path], tmp_path: Path) -> None:
    """Where copy and file do not fit beside what is kept free, it is refused with figures; elsewhere it is taken."""
    disk = small_disk(96 * MIB)
    place = str(disk / "data")
    with Daemon(data_dir=place, free_bytes_min=8 * MIB, ballast_bytes=4 * MIB) as daemon, daemon.client() as client:
        for n in range(16):
            client.set(f"fill/{n}", os.urandom(MIB // 2))
        wait_until((disk / "data" / "ballast").exists, what="the ballast is made")
        daemon.stop()  # what lies in the write-ahead log comes into the database
        daemon.start()
        size_bytes = (disk / "data" / "crdtsync.db").stat().st_size
        filling = fill(disk, leave_bytes=size_bytes + 20 * MIB)
        with pytest.raises(NoSpace, match=r"the copy that is made first and the backup itself .* [\d,]+ bytes"):
            client.backup(disk / "backup")
        client.backup(tmp_path / "backup")  # another disk: the copy alone has to find room
        with pytest.raises(OSError, match=r"bytes more, and .* are free there"):
            client.backup(small_disk(MIB) / "backup")
        filling.unlink()
        fill(disk, leave_bytes=2 * size_bytes + 20 * MIB)
        client.backup(disk / "backup")
        assert (disk / "data" / "ballast").exists()
        assert "no_space" not in daemon.alarms()
        assert not daemon.log_events("disk_low")
        assert not list((disk / "data").glob("backup-*"))
        assert {file.name for file in disk.iterdir()} == {"data", "backup", "filling"}


@pytest.fixture
def strace() -> str:
    path = shutil.which("strace")
    if path is None:
        pytest.skip("needs strace, to make system calls fail: apt-get install strace")
    return path


@pytest.mark.parametrize("fault", ["fdatasync,fsync:error=EIO", "pwrite64:error=EIO"])
def test_an_error_of_the_disk_ends_it_with_a_sentence_and_nothing_is_falsely_acknowledged(
    daemon: Daemon, strace: str, fault: str
) -> None:
    with daemon.raw("writer") as agent, daemon.raw("bystander") as bystander:
        for i in range(20):
            agent.write("set", key=f"good/{i}", value=i)
        tracer = failing(strace, daemon, fault)
        try:
            with pytest.raises((RawError, EOFError, OSError)):
                agent.write("set", key="bad", value=1)
            bystander.wait_closed()
            assert daemon.wait_exit() == FAILED
        finally:
            stop(tracer)
    assert_clean(daemon)
    last = daemon.log_lines()[-1]
    assert last.startswith("crdtsyncd: ")
    assert_sentence(last)
    assert "check the disk" in last
    daemon.start()
    with daemon.raw() as agent:
        assert keys(agent, "good/") == 20
        agent.write("set", key="good/more", value=1)
    assert_clean(daemon)


def commits(daemon: Daemon) -> int:
    return int(daemon.status()["store"]["commits"])


def test_a_slow_disk_makes_writes_slow_and_nothing_else(daemon: Daemon, strace: str) -> None:
    with daemon.raw("writer") as agent:
        agent.write("set", key="k", value=0)
        tracer = failing(strace, daemon, "fdatasync,fsync:delay_enter=20000")
        try:
            started = time.monotonic()
            for i in range(10):
                agent.write("set", key="k", value=i)
            assert time.monotonic() - started >= 0.2, "the fault was not injected"
            before = commits(daemon)
            sent = [agent.send_write("set", key=f"k/{i}", value=i) for i in range(500)]
            for request in sent:
                agent.result(request)
            assert commits(daemon) - before < 250, "what waits is committed together"
        finally:
            stop(tracer)
    assert_clean(daemon)
