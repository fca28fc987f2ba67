"""Joining by the invite of the settings: a node tries for as long as that can succeed, and says in an alarm why it has
not joined yet.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from crdtsyncd.telemetry.event_log import log

from crdtsync.core.alarm_catalogue import NOT_ALL_MERGED, NOT_JOINED
from crdtsync.core.interface import HostAlarm
from crdtsync.errors import CrdtSyncError, DaemonUnavailable, Refused
from crdtsync.wire.invites import decode_invite

if TYPE_CHECKING:
    from crdtsyncd.config.model import Config
    from crdtsyncd.loop.driver import Driver

    from crdtsync.wire.invites import Invite

RETRY_S = 5.0
EXPORTS = "crdtsync-merge-*"
"""The names of the directories in which ``cluster join --merge`` keeps what it brings along."""
_PASSING = ("unavailable", "unreachable", "closed", "no_space", "name_taken", "timeout", "quota_exceeded")
"""Codes of refusals that may end by themselves, or by what somebody does on another host."""
_WHAT_TO_DO = {
    "merge": "",
    "archive": "",
    "refuse": "; crdtsync cluster join with --merge brings it along and with --archive puts it aside; so does the "
    "setting join_data, or crdtsyncd --join with one of these options",
}


class JoinAtStart:
    """See the module's description. ``join`` asks to be let in, and begins anew as a member."""

    def __init__(self, config: Config, driver: Driver, join: Callable[[Invite], Awaitable[object]]) -> None:
        self._config = config
        self._driver = driver
        self._join = join
        self._told = ""

    async def run(self) -> None:
        """Until this node is a member, or can never be one by this invite."""
        invite = decode_invite(self._config.join)
        may_join = True
        while may_join:
            may_join = await self._is_to_try_again(invite)
            await asyncio.sleep(random.uniform(0.5, 1.5) * RETRY_S)

    async def _is_to_try_again(self, invite: Invite) -> bool:
        mode = self._config.join_data
        holds = self._driver.refuses_to_join(invite)
        if holds == "":
            self._tell("")
            return False
        if holds and mode == "refuse":
            self._tell(holds + _WHAT_TO_DO[mode])
            return True  # it may be deleted, or the node be joined by hand
        try:
            await (self._merge() if holds and mode == "merge" else self._join(invite))
        except CrdtSyncError as error:
            may_pass = isinstance(error, DaemonUnavailable) or error.code in _PASSING
            expired = "; and by the clock of this host the invite has expired: then it takes a new one"
            self._tell(
                error.message + (expired if may_pass and invite.expires_ms < time.time() * 1000 else ""), may_pass
            )
            return may_pass
        self._tell("")
        return False

    def _tell(self, reason: str, may_pass: bool = True) -> None:
        if reason and reason != self._told:
            log("join_failed" if may_pass else "join_refused", level="warning" if may_pass else "error", reason=reason)
        if reason != self._told:
            self._told = reason
            said = f"this node has not joined by its invite: {reason}" if reason else ""
            self._driver.feed(HostAlarm(NOT_JOINED, said))

    async def _merge(self) -> None:
        """As ``crdtsync cluster join --merge`` does it, by that very command: it is long, and blocks.

        Data that has not come along stays in the data directory, where :func:`tell_left` finds it.

        :raises CrdtSyncError: it has not joined.
        """
        command = [sys.executable, "-P", "-m", "crdtsyncd.cli", "--socket", str(self._config.socket), "--json"]
        process = await asyncio.create_subprocess_exec(
            *command, "cluster", "join", "-", "--merge",
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
            env={**os.environ, "TMPDIR": str(self._config.data_dir)},
        )  # fmt: skip
        try:
            _, told = await process.communicate(self._config.join.encode())
        except asyncio.CancelledError:
            process.kill()
            raise
        error = _error_in(told)
        if error["code"] == "not_all_merged":
            log("not_all_merged", level="error", reason=error["message"])
        elif process.returncode:
            raise Refused(error["message"], error["code"])


def tell_left(config: Config, driver: Driver) -> None:
    """Whether a join has left something behind that is not in the cluster."""
    with suppress(OSError):  # it is asked again; that the disk fails is for others to say
        left = ", ".join(sorted(str(place) for place in config.data_dir.glob(EXPORTS)))
        what = f"what this node held before it joined is not all in the cluster: the rest is in {left}"
        driver.feed(HostAlarm(NOT_ALL_MERGED, what if left else ""))


def _error_in(told: bytes) -> dict[str, Any]:
    """The error that a command with ``--json`` wrote to stderr, if there is one."""
    for line in reversed(told.decode(errors="replace").splitlines()):
        try:
            return dict(json.loads(line)["error"])
        except (ValueError, TypeError, KeyError):
            continue
    return {"code": "internal", "message": told.decode(errors="replace")[-500:]}
