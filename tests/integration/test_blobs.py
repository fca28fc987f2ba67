"""Blobs on real daemons: whole everywhere or not there, through kills on both sides, in little memory."""

from __future__ import annotations

import io
import json
import os
import pickle
import zipfile
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from random import Random

import pytest

from crdtsync.client import AsyncClient, Blob, Client
from crdtsync.errors import DamagedValue, InvalidRequest, KindMismatch, TooLarge, VersionMismatch
from tests.harness import Cluster, Daemon, wait_until, wait_until_equal
from tests.harness.shell import Shell
from tests.integration.witness import rss_bytes

pytestmark = pytest.mark.integration

MIB = 1024 * 1024


def source(path: Path, size: int) -> Path:
    """A file of so many bytes that do not repeat."""
    random = Random(size)
    with path.open("wb") as file:
        for start in range(0, size, MIB):
            file.write(random.randbytes(min(MIB, size - start)))
    return path


def blob_of(client: Client, key: str) -> Blob:
    """One that is there."""
    blob = client.get_blob(key)
    assert blob is not None
    return blob


def hash_of(client: Client, key: str) -> str:
    """Of what is read, part by part."""
    found, blob = sha256(), blob_of(client, key)
    while piece := blob.read(MIB):
        found.update(piece)
    return found.hexdigest()


def test_a_blob_is_read_like_a_file(client: Client, tmp_path: Path) -> None:
    path = tmp_path / "archive.zip"
    inside = Random(1).randbytes(2 * MIB)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("readme", "hello")
        archive.writestr("model", inside)
    assert client.get_blob("archive") is None
    seen: list[tuple[int, int | None]] = []
    written = client.put_blob(
        "archive", path, media_type="application/zip", progress=lambda done, total: seen.append((done, total))
    )
    content = path.read_bytes()
    assert seen[-1] == (len(content), len(content))
    blob = client.get_blob("archive", after=written)
    assert blob is not None
    assert (blob.size, blob.sha256) == (len(content), sha256(content).hexdigest())
    assert (blob.media_type, blob.entry.agent) == ("application/zip", client.agent)
    with zipfile.ZipFile(blob) as archive:
        assert (archive.read("readme"), archive.read("model")) == (b"hello", inside)
    for offset, whence, at in ((1_000_000, os.SEEK_SET, 1_000_000), (-10, os.SEEK_END, len(content) - 10)):
        assert (blob.seek(offset, whence), blob.read(20)) == (at, content[at : at + 20])
    blob.seek(0)
    assert blob.read() == content
    assert (blob.read(), blob.tell()) == (b"", len(content))
    assert client.get("archive")["size"] == len(content)
    assert client.keys() == ["archive"]


def test_what_takes_a_file_takes_a_blob(client: Client) -> None:
    lines = [b"%d " % number + b"x" * (number % 300) + b"\n" for number in range(8_000)]  # over two parts
    content = b"".join(lines)
    client.put_blob("text", content)
    with blob_of(client, "text") as blob:
        assert isinstance(blob, io.BufferedIOBase)
        assert (blob.readline(), blob.readline(3)) == (lines[0], lines[1][:3])
        blob.seek(0)
        assert list(blob) == lines
        blob.seek(0)
        text = io.TextIOWrapper(blob, newline="")
        assert list(text) == [line.decode() for line in lines]
    with pytest.raises(ValueError, match="closed"):
        blob.read()
    whole = bytearray(len(content) + 1)
    assert blob_of(client, "text").readinto(whole) == len(content)
    assert whole == content + bytes(1)
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        given = {"rows": lines, "large": bytes(MIB)}
        client.put_blob("pickled", pickle.dumps(given, protocol))
        assert pickle.load(blob_of(client, "pickled")) == given


def test_lines_of_damaged_bytes_are_noticed_at_the_end(client: Client) -> None:
    client.put_blob("text", b"a line\n" * 200_000)
    blob = blob_of(client, "text")
    blob.sha256 = sha256(b"what was put").hexdigest()
    with pytest.raises(DamagedValue, match="its hash differs"):
        list(blob)


async def test_a_blob_comes_in_pieces_under_asyncio(daemon: Daemon) -> None:
    async with AsyncClient(daemon.socket, agent="ann") as state:
        await state.put_blob("k", bytes(MIB + 1))
        found = await state.get_blob("k")
        assert found is not None
        async with found as blob:
            assert [len(piece) async for piece in blob] == [MIB // 2, MIB // 2, 1]
        with pytest.raises(ValueError, match="closed"):
            await blob.read()


async def test_what_a_put_takes_and_what_it_refuses(make_daemon: Callable[..., Daemon], tmp_path: Path) -> None:
    daemon = make_daemon(blob_bytes_max=2 * MIB)
    async with AsyncClient(daemon.socket, agent="ann") as state:
        for given in (b"", b"x", bytearray(b"xy"), io.BytesIO(bytes(MIB))):
            size = len(given) if isinstance(given, bytes | bytearray) else MIB
            await state.put_blob("k", given)
            blob = await state.get_blob("k")
            assert blob is not None
            assert len(await blob.read()) == size
        with pytest.raises(VersionMismatch):
            await state.put_blob("k", b"z", if_absent=True)
        with pytest.raises(TooLarge, match="blob_bytes_max"):
            await state.put_blob("k", bytes(2 * MIB + 1))
        with pytest.raises(TooLarge, match=r"in parts, or as a blob \(Client.put_blob, crdtsync blob put\)"):
            await state.set("long", bytes(MIB + 1))
        with pytest.raises(InvalidRequest, match="must give bytes"):
            await state.put_blob("k", io.StringIO("text"))  # type: ignore[arg-type]
        for wrong in (5, None, ["a.txt"]):
            with pytest.raises(InvalidRequest, match="from bytes, the path of a file or a file object, not from"):
                await state.put_blob("k", wrong)  # type: ignore[arg-type]
        await state.set("register", 1)
        with pytest.raises(KindMismatch):
            await state.put_blob("register", b"x")
        with pytest.raises(KindMismatch, match="read it with get"):
            await state.get_blob("register")
        reader, writer = os.pipe()
        os.write(writer, b"from a pipe")
        os.close(writer)
        with os.fdopen(reader, "rb", 0) as pipe:
            await state.put_blob("piped", pipe)
        piped = await state.get_blob("piped")
        assert piped is not None
        assert await piped.read() == b"from a pipe"
        await state.delete("k")
        assert await state.get_blob("k") is None


class Changing(io.BytesIO):
    """A file that somebody writes to between the first look at it and the second."""

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self.getbuffer()[0] ^= 1
        return super().seek(offset, whence)


def test_a_source_that_changes_makes_no_blob(client: Client) -> None:
    with pytest.raises(InvalidRequest, match="has changed while it was read"):
        client.put_blob("k", Changing(bytes(1000)))
    assert client.get("k") is None


def test_commands_put_and_get(daemon: Daemon, tmp_path: Path) -> None:
    shell = Shell(daemon.socket, tmp_path)
    content = source(tmp_path / "in", 3 * MIB + 7).read_bytes()
    token = shell.ok("blob", "put", "models/a", "in", "--media-type", "application/x-model")
    assert token.startswith("c1.")
    assert shell("blob", "get", "models/a", "-o", "out").out.startswith(f"wrote out: {len(content):,} bytes by")
    assert (tmp_path / "out").read_bytes() == content
    umask = os.umask(0)
    os.umask(umask)
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o666 & ~umask
    refused = shell("set", "models/b", "-", stdin=json.dumps("x" * MIB).encode())
    assert (refused.status, "crdtsync blob put" in refused.err) == (4, True), refused.err
    shell.ok("blob", "put", "models/b", "-", stdin=b"piped")
    assert shell.ok("blob", "get", "models/b") == "piped"
    shell.ok("checkpoint", "create", "before")
    shell.ok("del", "models/a")
    assert shell("blob", "get", "models/a", "-o", "gone").status == 1
    assert not (tmp_path / "gone").exists()
    shell("blob", "get", "models/a", "-o", "then", "--at", "checkpoint:before")
    assert (tmp_path / "then").read_bytes() == content


def test_blobs_travel_with_export_restore_undo_and_backup(
    daemon: Daemon, make_daemon: Callable[..., Daemon], tmp_path: Path
) -> None:
    shell = Shell(daemon.socket, tmp_path)
    content = source(tmp_path / "in", 2 * MIB + 7).read_bytes()
    with daemon.client("planner") as state:
        for key in ("changed", "deleted", "kept"):
            state.put_blob(key, content, media_type="text/x", meta={"by": key})
        state.put_blob("empty", b"")
        state.checkpoint("before")
        state.delete("deleted")
        state.session("critic").put_blob("changed", b"other")
        state.put_blob("later", b"x")
        assert [each.key for each in state.diff("before")] == ["changed", "deleted", "later"]
        foreseen = state.restore("before", dry_run=True)
        done = state.restore("before")
        assert (done.restored, done.removed, done.left) == (foreseen.restored, ["later"], {})
        assert sorted(done.restored) == ["changed", "deleted"]
        for key in done.restored:
            blob = state.get_blob(key, after=done.token)
            assert blob is not None
            assert (blob.read(), blob.media_type, blob.entry.meta) == (content, "text/x", {"by": key})
            assert blob.entry.siblings == []
        assert state.diff("before") == []
        again = state.restore("before")
        assert (again.restored, again.removed, again.left) == ([], [], {})
        state.checkpoint("review")
        state.session("critic").put_blob("kept", b"other")
        assert state.undo("critic", "checkpoint:review").restored == ["kept"]
        assert hash_of(state, "kept") == sha256(content).hexdigest()
    (tmp_path / "all").write_text(shell.ok("export"))
    other = make_daemon()
    there = Shell(other.socket, tmp_path)
    assert there.ok("import", "all") == "4 created"
    assert there.ok("import", "all") == "4 unchanged"
    with other.client() as state:
        state.put_blob("kept", b"mine")
        assert there.ok("import", "all", "--on-conflict", "sibling") == "1 added, 3 unchanged"
        entry = state.entry("kept")
        assert entry is not None
        assert sorted(one.value["size"] for one in (entry, *entry.siblings)) == [4, len(content)]
        assert there.ok("import", "all", "--on-conflict", "set") == "1 replaced, 3 unchanged"
        for key in ("changed", "deleted", "kept"):
            assert hash_of(state, key) == sha256(content).hexdigest()
        assert state.get("empty")["size"] == 0
    lines = (tmp_path / "all").read_text().splitlines()
    for broken, why in ((lines[:2], "are missing"), (lines[1:], "has bytes of a blob that is not before it")):
        (tmp_path / "cut").write_text("\n".join(broken))
        refused = there("import", "cut")
        assert (refused.status, why in refused.err) == (4, True), refused.err
    shell.ok("backup", "saved")
    third = make_daemon(start=False)
    shell.ok("restore", "saved", "--data-dir", str(third.data), "--new-node")
    third.start()
    with third.client() as state:
        assert hash_of(state, "changed") == sha256(content).hexdigest()
        state.set("changed-in-between", 1)
        assert state.restore("before").removed == ["changed-in-between"]


def put_through_kills(cluster: Cluster, path: Path, size: int) -> None:
    """Kill the daemon that takes a blob, and one that receives it, at three moments of the put."""
    putting, receiving, third = cluster
    marks = [size // 4, size // 2, 3 * size // 4]

    def kill_both(done: int, _total: int | None) -> None:
        if marks and done >= marks[0]:
            marks.pop(0)
            for daemon in (receiving, putting):
                daemon.kill()
                daemon.start()

    with putting.client() as client:
        client.put_blob("large", path, progress=kill_both, timeout=120)
    assert not marks
    wait_until_equal(cluster)
    with path.open("rb") as file:
        found = sha256()
        while piece := file.read(MIB):
            found.update(piece)
    for daemon in (putting, receiving, third):
        with daemon.client() as client:
            assert hash_of(client, "large") == found.hexdigest()


def test_a_put_and_its_way_to_others_go_on_after_kills(cluster: Cluster, tmp_path: Path) -> None:
    size = 12 * MIB
    path = source(tmp_path / "in", size)
    put_through_kills(cluster, path, size)
    with cluster[2].client() as client:
        client.delete("large")
    wait_until_equal(cluster)
    wait_until(lambda: all(one.space()["history_bytes"] < MIB for one in cluster), what="the bytes are gone")


def test_a_put_by_another_process_goes_on_where_the_first_was_killed(daemon: Daemon, tmp_path: Path) -> None:
    path = source(tmp_path / "in", 8 * MIB)

    class Ended(Exception):
        pass

    def end(done: int, _total: int | None) -> None:
        if done >= 6 * MIB:
            raise Ended

    with daemon.client() as first, pytest.raises(Ended):
        first.put_blob("k", path, progress=end)
    before = daemon.space()["log_changes"]
    with daemon.client() as second:
        second.put_blob("k", path)
        assert daemon.space()["log_changes"] - before == 3  # the two MiB that were left, and the entry
        assert hash_of(second, "k") == sha256(path.read_bytes()).hexdigest()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_150_mb_through_kills_in_little_memory(cluster: Cluster, tmp_path: Path) -> None:
    size = 150_000_000
    empty_bytes = [rss_bytes(daemon.pid) for daemon in cluster]
    put_through_kills(cluster, source(tmp_path / "in", size), size)
    for daemon, empty in zip(cluster, empty_bytes, strict=True):
        assert rss_bytes(daemon.pid) < empty + 100 * MIB
