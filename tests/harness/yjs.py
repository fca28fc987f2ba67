"""Unmodified Yjs editors from npm, and the server that they join."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.harness.daemon import Daemon
from tests.harness.npm import installed
from tests.harness.shell import PROGRAM, Running

PACKAGES = ["yjs@13.6.33", "y-websocket@3.1.0", "ws@8.23.0"]
PAGE_PACKAGES = [*PACKAGES, "codemirror@6.0.2", "y-codemirror.next@0.3.6", "esbuild@0.28.2"]
"""What the page of the documentation is made of."""
ESBUILD = "node_modules/.bin/esbuild"
_PROGRAM = Path(__file__).with_name("yjs_editor.mjs")


def editors_in(place: Path, packages: list[str] = PACKAGES) -> Path:
    """A directory with the editor's program; skips the test if npm cannot bring what it needs."""
    found = installed("CRDTSYNC_TEST_YJS", place, packages, ["node_modules/y-websocket/package.json"])
    shutil.copy(_PROGRAM, found)
    return found


class Server:
    """``crdtsync yjs`` on a port that was free."""

    def __init__(self, address: str, token: str) -> None:
        self.address = address
        self.token = token


@contextmanager
def served(daemon: Daemon, *arguments: str) -> Iterator[Server]:
    """The server beside a daemon, until the block ends."""
    token_file = daemon.base / "yjs-token"
    command = [*PROGRAM, "--socket", str(daemon.socket), "yjs", "--listen", "0", "--token-file", str(token_file)]
    with Running([*command, *arguments], {**os.environ}, daemon.base) as running:
        line = running.line()
        assert line.startswith("ws://"), running.interrupt()
        yield Server(line.partition(",")[0], token_file.read_text().strip())


class Editor:
    """One editor of one key."""

    def __init__(self, running: Running) -> None:
        self._running = running

    def do(self, name: str, *given: Any) -> Any:
        """Have it do one of the things that ``yjs_editor.mjs`` lists; what comes of it."""
        self._running.tell(json.dumps([name, *given]))
        return self._running.event()

    @property
    def text(self) -> str:
        """What it shows."""
        return str(self.do("read"))


@contextmanager
def editor(place: Path, server: Server, key: str, agent: str, space: str = "default") -> Iterator[Editor]:
    """An editor that joins a key, until the block ends."""
    command = ["node", "yjs_editor.mjs", f"{server.address}/{space}", key, server.token, agent]
    with Running(command, {**os.environ}, place, is_told=True) as running:
        yield Editor(running)
