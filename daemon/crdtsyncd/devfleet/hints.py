"""The commands that the views show: each works when it is pasted into another terminal in the same directory."""

from __future__ import annotations

import os
import shlex
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from crdtsyncd.devfleet.layout import NodePlace


def command_line() -> str:
    """How to call ``crdtsync`` from here."""
    if Path("dev").is_file() and Path("tools/dev.py").is_file():
        return "./dev run crdtsync"
    program = Path(sysconfig.get_path("scripts")) / "crdtsync"
    return shlex.quote(os.path.relpath(program) if program.is_relative_to(Path.cwd()) else str(program))


def commands(places: list[NodePlace], width: int | None = None) -> list[str]:
    """What to try: write on the first node, read on the last; on narrow screens one thing a line."""
    program = command_line()
    writer, reader = (shlex.quote(str(place.socket)) for place in (places[0], places[-1]))
    whole = [
        f"{program} --socket {writer} set plan/goal '\"ship\"'",
        f"{program} --socket {reader} get plan/goal",
    ]
    if width is None or max(map(len, whole)) <= width:
        return whole
    return [
        f"export CRDTSYNC_SOCKET={writer}",
        f"{program} set plan/goal '\"ship\"'",
        f"export CRDTSYNC_SOCKET={reader}",
        f"{program} get plan/goal",
    ]
