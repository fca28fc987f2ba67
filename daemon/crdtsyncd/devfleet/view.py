"""What is printed of the fleet: where it runs, what to try, and a line whenever a node is otherwise than before."""

from __future__ import annotations

import asyncio
import os
import shlex
import sysconfig
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crdtsyncd import terminal
from crdtsyncd.wording import counted

from crdtsync.errors import CrdtSyncError

if TYPE_CHECKING:
    from crdtsyncd.devfleet.process import DevNode

POLL_S = 0.5
ANSWER_TIMEOUT_S = 1.0


def greet(members: list[DevNode], took_s: float) -> None:
    """Say what runs where, and what to try in another terminal in the same directory."""
    terminal.line(f"cluster: {counted(len(members), 'node')}, ready in {took_s:.1f} s", at_once=True)
    for member in members:
        terminal.line(f"cluster: {member.place.name}, pid {member.pid}, socket {member.place.socket}", at_once=True)
    program = _command_line()
    first, last = (shlex.quote(str(member.place.socket)) for member in (members[0], members[-1]))
    for command in (
        f"--socket {first} set plan/goal '\"ship\"'",
        f"--socket {last} get plan/goal",
        f"--socket {first} top",
        f"--socket {first} ui",
    ):
        terminal.line(f"cluster: try {program} {command}", at_once=True)


def _command_line() -> str:
    """How to call ``crdtsync`` from here."""
    if Path("dev").is_file() and Path("tools/dev.py").is_file():
        return "./dev run crdtsync"
    program = Path(sysconfig.get_path("scripts")) / "crdtsync"
    return shlex.quote(os.path.relpath(program) if program.is_relative_to(Path.cwd()) else str(program))


async def follow(member: DevNode) -> None:
    """Tell of one node until cancelled, through its restarts.

    :raises OSError: nobody reads any more.
    """
    from crdtsync.client import AsyncClient

    told, ends = "", 0
    while True:
        was_ready = member.is_ready
        try:
            async with AsyncClient(member.place.socket, agent="cluster-view", timeout=ANSWER_TIMEOUT_S) as client:
                while True:
                    was_ready = member.is_ready
                    status = await client.status()
                    if member.ends > ends:
                        break
                    told = _tell(_state(member, status), told)
                    await asyncio.sleep(POLL_S)
        except CrdtSyncError:
            if was_ready and member.is_ready and member.ends == ends:
                told = _tell(f"{member.place.name} silent, it runs, and does not answer", told)
        if member.ends > ends:  # perhaps it runs again by now
            ends = member.ends
            told = _tell(f"{member.place.name} down, {member.fault}", told)
        await asyncio.sleep(POLL_S)


def _state(member: DevNode, status: dict[str, Any]) -> str:  # Any: as docs/reference/command-line.md has it
    """How a node is; lag and figures are left out, for they change with every write."""
    linked = sum(peer["state"] == "connected" for peer in status["peers"])
    said = f"{member.place.name} {status['node']['state']}, pid {member.pid}, {counted(linked, 'peer')} connected"
    return "; ".join([said, *(f"ALARM {alarm['message']}" for alarm in status["alarms"])])


def _tell(line: str, told: str) -> str:
    if line != told:
        terminal.line(f"{datetime.now(UTC):%H:%M:%S}Z {line}", at_once=True)
    return line
