"""A daemon that restarts: whatever is begun meanwhile waits for it, as ``get`` does."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from crdtsync import AsyncClient, Client, DaemonUnavailable
from tests.harness import Daemon

pytestmark = pytest.mark.integration


@contextmanager
def coming(daemon: Daemon) -> Iterator[None]:
    """The daemon starts while something goes on."""
    starting = threading.Thread(target=daemon.start)
    starting.start()
    try:
        yield
    finally:
        starting.join()


def read_watch(client: Client) -> object:
    with client.watch("k", timeout=60) as watch:
        return next(watch).value


def read_watch_from_now(client: Client) -> object:
    with client.watch("k", snapshot=False, timeout=60) as watch:
        client.set("k", "kept")
        return next(watch).value


def read_mirror(client: Client) -> object:
    with client.mirror("k") as mirror:
        return mirror["k"]


def read_editor(client: Client) -> object:
    with client.editor("t") as editor:
        return editor.read()


def stand_as_resolver(client: Client) -> object:
    with client.resolver("k"):
        return "kept"


@pytest.mark.parametrize(
    "read",
    [read_watch, read_watch_from_now, read_mirror, read_editor, stand_as_resolver],
    ids=lambda read: read.__name__,
)
def test_what_is_begun_while_the_daemon_restarts_waits_for_it(daemon: Daemon, read: Callable[[Client], object]) -> None:
    client = daemon.client("a")
    client.set("k", "kept")
    client.text("t").set("kept")
    daemon.kill()
    with coming(daemon):
        assert read(client) == "kept"


async def test_and_so_it_does_under_asyncio(daemon: Daemon) -> None:
    async with AsyncClient(socket=daemon.socket, agent="a") as client:
        await client.set("k", "kept")
        await client.text("t").set("kept")
        daemon.kill()
        with coming(daemon):
            async with client.watch("k", timeout=60) as watch:
                assert (await anext(watch)).value == "kept"
        daemon.kill()
        with coming(daemon):
            async with client.mirror("k") as mirror:
                assert mirror["k"] == "kept"
        daemon.kill()
        with coming(daemon):
            async with client.editor("t") as editor:
                assert await editor.read() == "kept"
        daemon.kill()
        with coming(daemon):
            async with client.resolver("k"):
                pass


def test_a_new_client_waits_if_it_is_told_to(daemon: Daemon) -> None:
    daemon.client("a").set("k", "kept")
    daemon.kill()
    with pytest.raises(DaemonUnavailable):
        Client(socket=daemon.socket, agent="b")
    with coming(daemon), Client(socket=daemon.socket, agent="b", wait=30) as client:
        assert client.get("k") == "kept"


def test_who_waits_in_vain_is_told_what_to_do(tmp_path: Path, daemon: Daemon) -> None:
    with pytest.raises(DaemonUnavailable, match="start crdtsyncd"):
        Client(socket=tmp_path / "none", agent="b", wait=0.2)
    client = daemon.client("a", timeout=0.5)
    daemon.kill()
    for begin in (lambda: client.watch("k"), lambda: client.mirror("k")):
        with pytest.raises(DaemonUnavailable):
            begin()
