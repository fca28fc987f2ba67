"""What the daemon tells systemd, and the sockets that it takes over."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys

import pytest
from crdtsyncd.service import sd_notify


@pytest.fixture
def manager(tmp_path, monkeypatch):
    """The manager's end of the notification socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(str(tmp_path / "notify"))
        sock.setblocking(False)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        yield sock


def told(manager: socket.socket) -> list[list[str]]:
    found = []
    while True:
        try:
            found.append(manager.recv(4096).decode().splitlines())
        except BlockingIOError:
            return found


class Worker:
    def __init__(self, gets_on: bool) -> None:
        self.progress = 0
        self.turns = 0
        self.gets_on = gets_on
        self.enough = asyncio.Event()
        self.turns_wanted = 0

    async def turn(self) -> None:
        self.turns += 1
        self.progress += self.gets_on
        if self.turns >= self.turns_wanted:
            self.enough.set()


async def reported(worker: Worker, turns: int) -> None:
    """Let the report run until the worker has made so many turns."""
    worker.turns_wanted = turns + 1  # when the last begins, those before it have been told
    task = asyncio.create_task(sd_notify.report(worker, lambda: "fine"))
    ends = asyncio.create_task(worker.enough.wait())
    await asyncio.wait([task, ends], return_when=asyncio.FIRST_COMPLETED)
    task.cancel()
    ends.cancel()
    await asyncio.wait([task, ends])


def test_without_a_manager_nothing_is_sent(monkeypatch):
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    sd_notify.notify("READY=1")


def test_a_reload_says_when_it_began(manager):
    sd_notify.notify_reloading()
    [[state, moment]] = told(manager)
    assert state == "RELOADING=1"
    assert int(moment.removeprefix("MONOTONIC_USEC=")) > 0


async def test_the_watchdog_hears_of_every_turn(manager, monkeypatch):
    monkeypatch.setenv("WATCHDOG_USEC", "3000")
    await reported(Worker(gets_on=True), 3)
    messages = told(manager)
    assert len(messages) >= 3
    assert all(message == ["STATUS=fine", "WATCHDOG=1"] for message in messages)


async def test_the_watchdog_hears_nothing_from_a_daemon_that_is_stuck(manager, monkeypatch):
    monkeypatch.setenv("WATCHDOG_USEC", "3000")
    await reported(Worker(gets_on=False), 3)
    messages = told(manager)
    assert messages
    assert all(message == ["STATUS=fine"] for message in messages)


@pytest.mark.parametrize("usec, pid", [("", ""), ("0", ""), ("3000", "1"), ("soon", "")])
async def test_no_watchdog_is_pinged_that_is_not_ours(manager, monkeypatch, usec, pid):
    monkeypatch.setenv("WATCHDOG_USEC", usec)
    if pid:
        monkeypatch.setenv("WATCHDOG_PID", pid)
    monkeypatch.setattr(sd_notify, "STATUS_INTERVAL_S", 0.001)
    await reported(Worker(gets_on=True), 1)
    messages = told(manager)
    assert messages
    assert all(message == ["STATUS=fine"] for message in messages)


_SHOW = """
import os, sys
os.environ["LISTEN_PID"] = str(os.getpid()) if sys.argv[1] == "ours" else "1"
from crdtsyncd.service.sd_notify import inherited_sockets
found = inherited_sockets()
print({name: [sock.getsockname() for sock in socks] for name, socks in found.items()})
print([name for name in os.environ if name.startswith("LISTEN_")])
"""


@pytest.mark.parametrize(
    "whose, names, expected",
    [
        ("ours", "peers:agents", "{'peers': ['B'], 'agents': ['A']}"),
        ("ours", "", "{'unknown': ['B', 'A']}"),
        ("another's", "peers:agents", "{}"),
    ],
)
def test_inherited_sockets_are_told_by_their_names(tmp_path, whose, names, expected):
    with socket.socket(socket.AF_UNIX) as agents, socket.socket(socket.AF_UNIX) as peers:
        for sock, name in ((agents, "A"), (peers, "B")):
            sock.bind(str(tmp_path / name))
            sock.listen()

        def pass_on() -> None:
            os.dup2(os.dup(agents.fileno()), 30)
            os.dup2(peers.fileno(), 3)
            os.dup2(30, 4)

        done = subprocess.run(
            [sys.executable, "-c", _SHOW, whose],
            env={**os.environ, "LISTEN_FDS": "2", "LISTEN_FDNAMES": names},
            preexec_fn=pass_on,
            close_fds=False,
            capture_output=True,
            text=True,
            check=True,
        )
    shown = done.stdout.replace(f"{tmp_path}/", "")
    assert shown == f"{expected}\n[]\n"
