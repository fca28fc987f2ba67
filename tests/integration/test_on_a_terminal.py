"""Whatever agents and other hosts have stored or said: no command of ours moves the terminal that it is printed on."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import threading
import unicodedata
from collections.abc import Iterator
from contextlib import suppress

import pytest
from crdtsyncd.cli.app import SECTIONS
from websockets.sync.server import ServerConnection, serve

from crdtsync.client.operations.backup_file import header
from crdtsync.errors import Timeout
from tests.harness import wait_until
from tests.harness.shell import PROGRAM, Shell
from tests.harness.warm import WarmProcess, warm_start

pytestmark = pytest.mark.integration

EVIL = "\x1b]52;c;cm0=\x07\x1b[2J\x9b31m\r\u202eexe.gpj\u2066\u2028\u200f\ufeff\x7f"
KEY = "plan/\u202eexe.gpj\u2028\u2066"
"""Keys have no control characters; what turns the direction of writing they may have."""


class Terminal:
    """Runs commands as a person does."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell

    def __call__(self, *arguments: str, until: str = "", seconds: float = 60) -> str:
        """All that comes on the terminal of a command, which ends or is ended: when it has shown that, or later."""
        near, far = pty.openpty()
        process: subprocess.Popen[bytes] | WarmProcess
        environment = {**self._shell.environment, "TERM": "dumb", "COLUMNS": "200", "LINES": "60", "NO_COLOR": "1"}
        place, warm = self._shell.directory, warm_start(environment)
        if warm is None:
            program = [*PROGRAM, *arguments]
            process = subprocess.Popen(program, stdin=far, stdout=far, stderr=far, env=environment, cwd=place)
        else:
            process = warm.start(
                "crdtsync", arguments, environment=environment, directory=place, stdin=far, stdout=far, stderr=far
            )
        os.close(far)

        def end() -> None:
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGTERM)

        timer = threading.Timer(seconds, end)
        timer.start()
        try:
            shown = b""
            for piece in self._read(near):
                shown += piece
                if until and until.encode() in shown:
                    end()
            return shown.decode().replace("\r\n", "\n")
        finally:
            timer.cancel()
            process.wait()
            os.close(near)

    @staticmethod
    def _read(near: int) -> Iterator[bytes]:
        with suppress(OSError):  # how Linux ends a terminal
            while piece := os.read(near, 65536):
                yield piece


def moves(shown: str) -> list[str]:
    """What of it is no plain text, but for what shows how far work is that takes long."""
    shown = re.sub("\r[^\r\x1b]*\x1b\\[K", "", shown)
    return sorted({one for one in shown if unicodedata.category(one) in ("Cc", "Cf", "Zl", "Zp", "Cs")} - {"\n", "\t"})


@pytest.fixture
def terminal(daemon, tmp_path) -> Terminal:
    """On a daemon that holds something evil of every kind, with authors who could not agree."""
    with daemon.client() as client:
        client.set(KEY, EVIL, meta={EVIL: EVIL})
        client.set(KEY, {EVIL: [EVIL]}, seen="?")
        client.set("bytes", EVIL.encode())
        client.set("gone", EVIL)
        client.delete("gone")
        client.append("log", {EVIL: EVIL})
        client.add("set", EVIL)
        client.merge("map", {"\u202efield\u2028": EVIL})
        client.text("text").set(EVIL)
        client.incr("count")
        client.schema_set("plan/\u202e/*", policy="lww")
        client.claim(KEY, keep=False).acquire()
        client.put_task("tasks/\u202eexe", {EVIL: EVIL}, role="\u202e")
        with suppress(Timeout):
            client.ask("deploy", EVIL, options=[EVIL], context=EVIL, timeout=0.01)
        client.checkpoint("c", note=EVIL)
        client.set("after", EVIL)
    return Terminal(Shell(daemon.socket, tmp_path))


SHOWING = [
    ("get", KEY), ("get", KEY, "--json"), ("get", KEY, "--siblings"), ("get", "bytes"), ("get", "map"),
    ("get", "log"), ("get", "set"), ("get", EVIL), ("get", "text"), ("ls",), ("ls", "--json"), ("log", "log"),
    ("members", "set"), ("text", "text"), ("text", KEY), ("history",), ("history", KEY), ("history", KEY, "--json"),
    ("history", "--lost"), ("conflicts",), ("conflicts", "--json"), ("resolve", KEY, "--take", EVIL),
    ("resolve", EVIL, "--value", "1"), ("schema", "show"), ("schema", "show", "--json"), ("export",), ("status",),
    ("peers",), ("explain", KEY), ("explain", EVIL), ("explain", KEY, "--json"), ("top", "--json"), ("doctor",),
    ("metrics",), ("space", "list"), ("access", "list"), ("access", "grant", EVIL, "read", EVIL), ("agent", "list"),
    ("touch", KEY), ("touch", EVIL), ("blob", "put", EVIL, EVIL), ("blob", "get", EVIL), ("blob", "get", KEY),
    ("remove", "set", EVIL), ("now",), ("completion", EVIL),
    ("cluster", "members"), ("log-level", EVIL), ("set", EVIL, EVIL), ("set", "k", EVIL),
    ("set", KEY, "1", "--if-absent"), ("append", KEY, "1"), ("incr", KEY), ("merge", "map", EVIL),
    ("drop", "map", EVIL), ("add", "set", EVIL), ("discard", "set", EVIL), ("wait", EVIL),
    ("get", "k", "--after", EVIL), ("--space", EVIL, "get", "k"), ("--agent", EVIL, "get", "k"), (EVIL,),
    ("get", "--" + EVIL), ("--socket", "/nowhere/" + EVIL, "get", "k"), ("import", EVIL), ("batch", EVIL),
    ("import-from", "redis", EVIL), ("import-from", "memory-server", EVIL), ("import-from", "mem0", EVIL),
    ("backup", "/nowhere/" + EVIL), ("restore", EVIL), ("agent", "create", EVIL), ("agent", "revoke", EVIL),
    ("space", "create", EVIL), ("cluster", "join", EVIL), ("cluster", "remove", EVIL), ("service", "status"),
    ("update", KEY, "--", "printf", EVIL), ("update", KEY, "--", EVIL), ("reset", KEY),
    ("trim", KEY, "--keep", "1"), ("del", EVIL), ("top", "-n", "1"), ("view",), ("view", EVIL),
    ("view", "define", EVIL), ("view", "use", EVIL), ("context", "get", EVIL), ("tokens", EVIL),
    ("tokens", "/dev/null", "--model", EVIL), ("mcp", "install", "--client", EVIL), ("mcp", "serve", "--tools", EVIL),
    ("claims",), ("claims", "--json"), ("claim", KEY), ("claim", EVIL), ("release", EVIL), ("tasks",), ("tasks", EVIL),
    ("task", "put", EVIL, EVIL), ("task", "retry", EVIL), ("asks",), ("asks", "--json"), ("answer", EVIL, EVIL),
    ("ask", "deploy", "again", "--timeout", "1s"), ("who",), ("who", "--json"), ("search", "exe"), ("search", EVIL),
    ("memory", "add", EVIL), ("memory", "list"), ("memory", "search", "exe"), ("memory", "get", EVIL),
    ("checkpoint", "list"), ("checkpoint", "show", "c"), ("checkpoint", "show", EVIL), ("checkpoint", "diff", "c"),
    ("checkpoint", "restore", "c", "--dry-run"), ("undo", "--agent", EVIL, "--since", "1h", "--dry-run"),
    ("checkpoint", "policy"), ("checkpoint", "policy", "--json"), ("checkpoint", "policy", EVIL, "--remove"),
    ("checkpoint", "verify", "c"), ("checkpoint", "verify", EVIL),
    ("checkpoint", "fork", "trial"), ("space", "merge", "trial"), ("space", "merge", EVIL),
    ("purge", EVIL), ("purge", "--show"), ("bring-back",), ("session", "ls"), ("session", "show", EVIL),
    ("yjs", "--listen", EVIL), ("doc", KEY), ("doc", "text", "--get", EVIL),
    ("compress", EVIL), ("compress", "/dev/null", "--model", EVIL),
    ("session", "save", EVIL), ("session", "load", EVIL),
    ("session", "handover", EVIL, "--to", "codex"),
    ("session", "hook", "--from", EVIL),
    ("session", "exclude", EVIL, EVIL), ("session", "branch", EVIL), ("session", "ls", "--where"),
    ("session", "follow", EVIL), ("session", "search", EVIL), ("session", "diff", EVIL, EVIL),
    ("session", "diff", EVIL), ("session", "log", EVIL),
    ("session", "rewind", EVIL, "1"), ("session", "share", EVIL, "trial"), ("session", "prune", "--older", "1d"),
    ("session", "handover", "--latest", "--to", "codex", "--on", EVIL), ("ui", "--listen", EVIL),
]  # fmt: skip


@pytest.mark.timeout(600)  # a hundred commands, each of which starts a program
def test_no_command_moves_the_terminal(terminal):
    shown = {arguments: moves(terminal(*arguments)) for arguments in SHOWING}
    assert {arguments: found for arguments, found in shown.items() if found} == {}
    assert r"\u202eexe.gpj" in terminal("get", KEY, "--siblings")
    assert r"\x1b]52;c;cm0=" in terminal("text", "text")


def test_every_command_is_tried():
    tried = {arguments[0] for arguments in SHOWING} | {"watch", "resolver", "edit", "cluster", "work", "on"}
    assert {name for commands in SECTIONS.values() for name in commands} - tried == set()


def test_a_watch_moves_nothing_either(terminal, daemon):
    daemon.client().set("zz/last", 1)
    shown = terminal("watch", until="zz/last")
    assert moves(shown) == []
    assert r"\u202eexe.gpj" in shown
    assert "zz/last" in shown


def test_who_asks_for_it_raw_and_who_reads_a_pipe_gets_it_whole(terminal, daemon, tmp_path):
    assert EVIL.encode() == subprocess.run(
        [*PROGRAM, "text", "text"], env=terminal._shell.environment, capture_output=True, check=True
    ).stdout.removesuffix(b"\n")
    assert "\x1b]52" in terminal("get", "bytes", "--raw")


def test_what_a_backup_says_of_itself_is_not_believed(terminal, tmp_path):
    about = {"bytes": 1, "sha256": EVIL, "machine": EVIL, "time": 1, "name": EVIL}
    lies: list[dict[str, object]] = [{"time": EVIL}, {"bytes": EVIL}, {"name": 7}, {"sha256": None}, {"machine": []}]
    for lie in lies:
        (tmp_path / "evil").write_bytes(header({**about, **lie}) + b"x")
        shown = terminal("restore", "evil", "--data-dir", str(tmp_path / "new"))
        assert "the beginning of evil is damaged" in shown
        assert moves(shown) == []
    (tmp_path / "evil").write_bytes(header(about) + b"x")
    assert moves(terminal("restore", "evil", "--data-dir", str(tmp_path / "new"))) == []


def test_what_a_peer_says_as_it_hangs_up_moves_nothing(make_daemon, tmp_path):
    def hang_up(connection: ServerConnection) -> None:
        connection.close(1008, EVIL[:20] + "\u202eexe.gpj")

    with serve(hang_up, "127.0.0.1", 0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        port = server.socket.getsockname()[1]
        daemon = make_daemon(peers=[f"ws://127.0.0.1:{port}"], insecure_loopback=True)
        terminal = Terminal(Shell(daemon.socket, tmp_path))
        with daemon.client() as client:
            wait_until(lambda: any(peer.get("last_error") for peer in client.status()["peers"]))
        for arguments in (("status",), ("peers",), ("peers", "--json"), ("doctor",), ("explain", "k")):
            assert moves(terminal(*arguments)) == []
        logged = (line for line in daemon.log_lines() if "exe.gpj" in line)
        assert all(json.loads(line) and moves(line) == [] for line in logged)
        server.shutdown()
