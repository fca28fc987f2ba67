"""A purge on real hosts: gone from every file of every host, also of one that was away."""

from __future__ import annotations

from pathlib import Path

import pytest

from crdtsync import AsyncClient, Client
from crdtsync.errors import NotAllowed
from tests.harness import Cluster, Daemon, wait_until, wait_until_equal

pytestmark = pytest.mark.integration

SECRET = "the-launch-code-is-4711"


def files_with(secret: str, directory: Path) -> list[str]:
    """The files under a host's data directory that have it in them."""
    return [
        file.name for file in sorted(directory.rglob("*")) if file.is_file() and secret.encode() in file.read_bytes()
    ]


def is_gone(daemon: Daemon, pattern: str) -> bool:
    """Whether the host says that it is done, and its files are clean."""
    found = daemon.client().purges(pattern)
    return bool(found) and found[0].done and files_with(SECRET, daemon.data) == []


def write_secrets(state: Client) -> None:
    state.set("notes/a", SECRET)
    state.set("notes/a", SECRET + "x" * 4000)
    state.append("notes/log", SECRET)
    state.text("notes/text").insert(0, SECRET)
    state.add("notes/set", SECRET)
    state.set("kept", 1)
    state.set("kept", 2)


def test_a_purge_reaches_every_host_and_one_that_was_away(cluster: Cluster) -> None:
    here, there, away = cluster
    write_secrets(here.client())
    wait_until_equal(cluster)
    for daemon in cluster:
        assert files_with(SECRET, daemon.data)
    away.stop()
    written = here.client().purge("notes/**")
    assert written.removed == 4
    assert here.client().get("notes/a") is None
    for daemon in (here, there):
        wait_until(lambda d=daemon: is_gone(d, "notes/**"), what=f"{daemon.name} is clean")  # type: ignore[misc]
    there.client().set("kept", 3)
    here.stop()  # who comes back hears of it from a host that did not order it
    away.start()
    wait_until(lambda: is_gone(away, "notes/**"), what="the one that was away is clean")
    here.start()
    wait_until_equal(cluster, 60)
    for daemon in cluster:
        client = daemon.client()
        assert [*client.keys()] == ["kept"]
        assert [*client.history("notes/a")] == []
        assert [past.value for past in client.history("kept")] == [3, 2, 1]
        (purge,) = client.purges()
        assert purge.done
        assert not client.status()["alarms"]


async def test_the_asyncio_client_purges_too(daemon: Daemon) -> None:
    async with AsyncClient(str(daemon.socket)) as state:
        await state.set("a/1", SECRET)
        written = await state.purge("a/*")
        assert (written.removed, written.more) == (1, False)
        assert [purge.pattern for purge in await state.purges()] == ["a/*"]


def test_it_needs_admin_on_all_the_keys(daemon: Daemon, tmp_path: Path) -> None:
    owner = daemon.client()
    key = tmp_path / "critic.key"
    key.write_text(f"{owner.agent_create('critic')['key']}\n")
    key.chmod(0o600)
    owner.access_grant("agent:critic", "write", "notes/**")
    owner.access_grant("agent:critic", "admin", "own/**")
    with Client(str(daemon.socket), agent_key=key) as critic:
        critic.set("notes/a", 1)
        with pytest.raises(NotAllowed):
            critic.purge("notes/a")
        with pytest.raises(NotAllowed):
            critic.purge("**")
        critic.set("own/a", 1)
        assert critic.purge("own/a").removed == 1
