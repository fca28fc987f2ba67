"""The daemon itself, beside the state, in the asyncio client: its figures, its log level, a backup."""

from __future__ import annotations

from asyncio import sleep, to_thread
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from crdtsync.client.aio.methods.base import AsyncMethods
from crdtsync.errors import CrdtSyncError

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from crdtsync.client.session.request_context import Arguments
    from crdtsync.client.values.durations import Seconds


class AsyncDaemonMethods(AsyncMethods):
    """The part of a session that looks after the daemon."""

    async def status(self, *, far: bool = False, timeout: Seconds | None = None) -> dict[str, Any]:
        """The object that ``crdtsync status --json`` prints; ``far``: nodes reached over others are asked for their lag
        first.
        """
        return await self._ask("status", {"far": True} if far else {}, timeout)

    async def metrics(self, *, timeout: Seconds | None = None) -> str:
        """The daemon's figures in Prometheus' text format."""
        return await self._ask_for(lambda reply: str(reply["text"]), "metrics", {}, timeout)

    async def log_level(self, level: str | None = None, *, timeout: Seconds | None = None) -> str:
        """The least severe events that the daemon logs; with ``level`` (debug, info, warning, error) changed to that.

        A new level holds until the daemon reads its settings again.

        :raises NotAllowed: only root and the daemon's own user may change it.
        """
        arguments: Arguments = {} if level is None else {"level": level}
        return await self._ask_for(lambda reply: str(reply["level"]), "log_level", arguments, timeout)

    async def backup(
        self,
        path: str | os.PathLike[str],
        *,
        progress: Callable[[int, int], None] | None = None,
        timeout: Seconds | None = None,
    ) -> dict[str, Any]:
        """Write a backup of the whole daemon, all spaces, as of now; it goes on serving meanwhile.

        The file is on disk on return, for its owner alone to read. ``progress`` is called with how much of how much is
        done, in bytes of the copy and then of the transfer. Returns what the file says of itself. ``timeout`` is that
        of each request, not of the whole.

        :raises NotAllowed: only root and the daemon's own user may take one.
        :raises NoSpace: the daemon has no room for the copy, and for the file too if it is to be on the same disk.
        :raises OSError: the file cannot be written, has no room, or is there already.
        """
        from crdtsync.client.operations.backup_file import POLL_S, BackupFile, device_of, progress_of, public

        begun = await self._ask("backup", {"device": device_of(path)}, timeout)
        try:
            file = BackupFile(path, begun)
            try:
                while True:
                    reply = await self._ask("backup", {"offset": file.size_bytes}, timeout)
                    if "data" not in reply:
                        if progress is not None:
                            progress(*progress_of(reply, begun))
                        await sleep(POLL_S)
                        continue
                    file.write(reply["data"])
                    if progress is not None:
                        progress(reply["bytes"] + file.size_bytes, 2 * reply["bytes"])
                    if file.size_bytes >= reply["bytes"]:
                        break
                await to_thread(file.finish, reply["sha256"])
            finally:
                file.discard()
        finally:
            with suppress(CrdtSyncError):  # the connection may be gone, and the backup with it
                await self._ask("backup", {"end": True}, timeout)
        return {**public(begun["about"]), "bytes": file.size_bytes, "sha256": reply["sha256"]}
