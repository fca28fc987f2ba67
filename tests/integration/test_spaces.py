"""Spaces on real daemons: made, used and dropped over cut links, by both clients and the command line."""

from __future__ import annotations

import asyncio
import os
import subprocess

import pytest

from crdtsync import AsyncClient, Client, NotAllowed, Timeout, UnknownSpace
from crdtsync.client.streams import resume
from tests.harness import Cluster, Daemon
from tests.harness.cluster import wait_until
from tests.harness.shell import Shell

pytestmark = pytest.mark.integration


@pytest.fixture
def trio():
    with Cluster(3) as cluster:
        yield cluster


def client(daemon: Daemon, space: str = "default") -> Client:
    return Client(socket=daemon.socket, space=space, agent="tester")


def test_a_space_from_its_making_to_its_archive(trio, monkeypatch):
    monkeypatch.setattr(resume, "SPACE_RETURN_S", 0.3)
    with client(trio[0]) as state:
        made = state.create_space("team")
        assert made.created
        assert made.token is not None
        assert state.wait(made.token, w="all") == 3
        assert not state.create_space("team").created
    with client(trio[2], "team") as state, client(trio[1], "team") as other:
        state.set("k", 1, w="all")
        assert other.get("k") == 1
        watch = other.watch("")
        assert next(watch).key == "k"
        assert next(watch).key is None
        with client(trio[0]) as third:
            dropped = third.drop_space("team")
            third.wait(dropped.token, w="all")
        with pytest.raises(UnknownSpace, match="was dropped"):
            next(watch)
        with pytest.raises(UnknownSpace):
            state.get("k")
        with client(trio[2]) as third:
            (archive,) = third.archives()
            assert (archive.name, archive.entries, archive.unseen) == ("team@1", 1, 0)
            old = third.session(space=archive.name)
            assert old.get("k") == 1
            with pytest.raises(NotAllowed):
                old.set("k", 2)


def test_a_space_that_is_made_anew_has_its_watchers_mirrors_and_resolvers_again():
    """Both clients', and the connection may break meanwhile."""
    with Daemon() as daemon, client(daemon) as admin:
        admin.create_space("team")
        with client(daemon, "team") as state:
            state.set("k", "old")
            watch, mirror = state.watch(), state.mirror()
            resolver = state.resolver("**", lambda conflict: max(conflict.values))
            assert [next(watch).key, next(watch).key] == ["k", None]
            with resolver, mirror:
                asyncio.run(made_anew(daemon, admin))
                told = [next(watch) for _ in range(3)]
                assert [event.event for event in told[:2]] == ["reset", "snapshot"]
                wait_until(lambda: mirror.get("late") == "new")
                assert mirror.error is None
                assert "k" not in mirror
                for value in (1, 7, 5):
                    with client(daemon, "team") as author:
                        author.set("conflict", value, seen="?")
                wait_until(lambda: mirror.get("conflict") == 7)
            watch.close()


async def made_anew(daemon, admin):
    async with (
        AsyncClient(socket=daemon.socket, space="team") as state,
        state.watch() as watch,
        state.mirror() as mirror,
    ):
        assert [(await anext(watch)).key, (await anext(watch)).key] == ["k", None]
        admin.drop_space("team")
        while True:  # it may not have heard of that yet
            with pytest.raises(Timeout) as late:
                await watch.next(timeout=0.3)
            if "made anew" in str(late.value):
                break
        daemon.kill()
        daemon.start()
        admin.create_space("team")
        written = admin.session(space="team").set("late", "new")
        assert [(await anext(watch)).event for _ in range(2)] == ["reset", "snapshot"]
        await mirror.wait(written)
        assert {**mirror} == {"late": "new"}


def test_a_host_that_was_cut_off_follows_and_says_what_it_archived(trio):
    with client(trio[0]) as state:
        state.wait(state.create_space("team").token or "", w="all")
    trio.isolate(2)
    with client(trio[2], "team") as away:
        away.set("lost", "and found")
    with client(trio[0]) as state:
        state.drop_space("team")
        state.create_space("team")
        state.session(space="team").set("k", "new")
    trio[2].kill()
    trio.heal()
    trio[2].start()
    with client(trio[2]) as back:
        wait_until(lambda: [space.epoch for space in back.spaces() if space.name == "team"] == [3])
        wait_until(lambda: back.session(space="team").get("k") == "new")
        assert back.session(space="team").get("lost") is None
        assert [alarm["code"] for alarm in back.status()["alarms"]] == ["archived_writes"]
        (archive,) = back.archives()
        assert archive.unseen == 1
        assert back.session(space=archive.name).get("lost") == "and found"


MARKER = "marker-of-the-secret-space"


def test_nothing_of_a_space_for_two_hosts_is_on_the_disk_of_a_third(trio):
    nodes = [trio[0].name, trio[1].name]
    with client(trio[2]) as outsider:
        made = outsider.create_space("secret", nodes=nodes)
        assert not made.here
        outsider.wait(made.token or "", w="all")
    with client(trio[0], "secret") as one, client(trio[1], "secret") as other:
        one.set("k", MARKER)
        one.text("notes").set(MARKER)
        one.append("log", MARKER)
        wait_until(lambda: other.get("notes") == MARKER)
        other.delete("k")
        trio[1].kill()
        one.set("k", MARKER)
        trio[1].start()
        trio.wait_connected()
        wait_until(lambda: other.get("k") == MARKER)
    with client(trio[2]) as outsider:
        outsider.set("public", "no secret")
        assert MARKER not in str(outsider.status())
        with pytest.raises(UnknownSpace, match="it is on host-a, host-b"):
            outsider.session(space="secret").get("k")
    trio[2].stop()
    found = {
        word: subprocess.run(["grep", "-rq", word, os.fspath(trio[at].data)], check=False).returncode
        for at, word in ((2, MARKER), (2, "no secret"))
    }
    assert found == {MARKER: 1, "no secret": 0}
    assert subprocess.run(["grep", "-rq", MARKER, os.fspath(trio[0].data)], check=False).returncode == 0


def test_the_asyncio_client_has_the_same(daemon):
    async def scene() -> None:
        async with AsyncClient(socket=daemon.socket, agent="tester") as state:
            made = await state.create_space("team")
            assert made.here
            await state.session(space="team").set("k", 1)
            assert [space.name for space in await state.spaces()] == ["default", "team"]
            dropped = await state.drop_space("team")
            assert dropped.archive == "team@1"
            assert [archive.name for archive in await state.archives()] == ["team@1"]

    asyncio.run(scene())


def test_a_thousand_spaces(daemon, tmp_path):
    shell = Shell(daemon.socket, tmp_path)

    async def make() -> None:
        async with AsyncClient(socket=daemon.socket, agent="maker") as state:
            await asyncio.gather(*(state.create_space(f"s{n}") for n in range(1000)))

    asyncio.run(make())
    with client(daemon) as state:
        state.session(space="s999").set("k", 1)
        state.set("k", 2)
    daemon.kill()
    daemon.start()
    assert shell.ok("--space", "s999", "get", "k") == "1"
    assert len(shell.ok("space", "list").splitlines()) == 1002
