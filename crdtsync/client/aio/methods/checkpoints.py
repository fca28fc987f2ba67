"""Checkpoints in the asyncio client."""

from __future__ import annotations

from asyncio import sleep
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from crdtsync.client.aio.methods.base import AsyncMethods
from crdtsync.client.protocol.steps import limit_s
from crdtsync.errors import DamagedValue, InvalidRequest, TooLarge, TooOld

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from crdtsync.client.aio.client import AsyncSession
    from crdtsync.client.operations.checkpoints import CheckpointPolicy, Checkpoints, Verified
    from crdtsync.client.operations.restore import Difference, Restored
    from crdtsync.client.session.request_context import WriteConcern
    from crdtsync.client.values.durations import Seconds
    from crdtsync.client.values.listing import Listing
    from crdtsync.client.values.points import Point
    from crdtsync.client.values.results import Entry
    from crdtsync.client.values.write_result import Written

_READ_BYTES = 1024 * 1024
_MEND_TRIES = 3
_MEND_PAUSE_S = 1.0


class AsyncCheckpointMethods(AsyncMethods):
    """The part of a session that names points of the space's past, to which it can go back."""

    async def checkpoint(
        self,
        name: str,
        *,
        prefix: str | Iterable[str] | None = None,
        note: str = "",
        keep: Seconds | None = None,
        w: WriteConcern = None,
        timeout: Seconds | None = None,
    ) -> Written:
        """Name what this daemon holds now, to read it (``at="checkpoint:NAME"``) and restore it later; the token.

        It costs one small write, however large the space is, and is on disk on return. Every node that has applied it
        keeps what it holds, until it is deleted.

        :param prefix: what is restored if the restore does not say: keys that begin so; a list for several.
        :param note: why it was made, at most 1,000 characters.
        :param keep: delete it after this time.
        :raises VersionMismatch: there is one of that name.
        :raises QuotaExceeded: the space has 100, or what they hold back takes four times the cap of history.
        """
        from crdtsync.client.operations.checkpoints import checkpoint

        return await self._write(checkpoint(self._operations, name, prefix, note, keep), w, timeout)

    async def checkpoints(self, *, timeout: Seconds | None = None) -> Checkpoints:
        """The checkpoints of the space, the oldest first."""
        from crdtsync.client.operations.checkpoints import checkpoints

        timeout_s = limit_s(timeout, self.timeout_s)
        return await self.run(checkpoints(self._operations, timeout_s), timeout_s)

    async def delete_checkpoint(self, name: str, *, w: WriteConcern = None, timeout: Seconds | None = None) -> bool:
        """Delete a checkpoint, so that nodes need not keep what it holds any longer; whether it was there."""
        from crdtsync.client.operations.checkpoints import CHECKPOINT, delete

        return await self._write(delete(self._operations, CHECKPOINT, name), w, timeout)

    async def checkpoint_policy(
        self,
        name: str,
        *,
        every: Seconds,
        prefix: str | Iterable[str] | None = None,
        keep: int = 24,
        age: Seconds | None = None,
        w: WriteConcern = None,
        timeout: Seconds | None = None,
    ) -> Written:
        """Have the nodes make a checkpoint ``every`` so often while something changes; in place of one of that name.

        One node makes it, checks it, and deletes old ones: the newest ``keep`` stay, and those younger than ``age``, 50
        at most. They are called ``NAME-DATE-TIME-NODE``. If one is overdue, every node raises ``checkpoint_overdue``.

        :param prefix: keys whose changes count, and that are restored if the restore does not say; a list for several.
        :param keep: 3 to 50.
        """
        from crdtsync.client.operations.checkpoints import set_policy

        return await self._write(set_policy(self._operations, name, every, prefix, keep, age), w, timeout)

    async def checkpoint_policies(self, *, timeout: Seconds | None = None) -> list[CheckpointPolicy]:
        """How often checkpoints of the space are made by themselves."""
        from crdtsync.client.operations.checkpoints import policies

        timeout_s = limit_s(timeout, self.timeout_s)
        return await self.run(policies(self._operations, timeout_s), timeout_s)

    async def delete_checkpoint_policy(
        self, name: str, *, w: WriteConcern = None, timeout: Seconds | None = None
    ) -> bool:
        """End a policy; whether it was there. The checkpoints that were made stay."""
        from crdtsync.client.operations.checkpoints import POLICY, delete

        return await self._write(delete(self._operations, POLICY, name), w, timeout)

    async def verify_checkpoint(
        self, name: str, *, progress: Callable[[int], object] | None = None, timeout: Seconds | None = None
    ) -> Verified:
        """Read all that a checkpoint holds on this node; the daemon compares each value with its hash.

        Blobs are read as a whole. A value that the disk has spoilt is read from the log, if that still has it, else
        fetched from another node (``mended``); if it has not come after a few seconds it is among ``damaged``. Then
        older checkpoints are read too, the newest first, until one is whole.

        :param progress: is called with 1 after each key.
        :raises InvalidRequest: there is no checkpoint of that name.
        :raises TooOld: this node does not hold all of it.
        """
        found = [each.name for each in await self.checkpoints(timeout=timeout)]
        if name not in found:
            raise InvalidRequest(f"there is no checkpoint {name} in space {self.space}: see crdtsync checkpoint list")
        verified = await self._verify(name, progress, timeout)
        for older in reversed(found[: found.index(name)] if verified.damaged else []):
            with suppress(TooOld):
                if not (await self._verify(older, progress, timeout)).damaged:
                    verified.older = older
                    break
        return verified

    async def _verify(self, name: str, progress: Callable[[int], object] | None, timeout: Seconds | None) -> Verified:
        from crdtsync.client.operations.checkpoints import Verified

        past: AsyncSession = self.session(at=f"checkpoint:{name}")  # type: ignore[attr-defined]  # this is a part of it
        verified = Verified()
        spoilt: list[Entry] = []
        for entry in await past.entries(timeout=timeout):
            verified.keys += 1
            if await self._is_damaged(past, entry, verified, timeout):
                spoilt.append(entry)
            if progress is not None:
                progress(1)
        for _ in range(_MEND_TRIES if spoilt else 0):
            await sleep(_MEND_PAUSE_S)  # the daemon asks its peers for what it could not read
            spoilt = [entry for entry in spoilt if await self._is_damaged(past, entry, verified, timeout)]
        return verified

    async def _is_damaged(self, past: AsyncSession, entry: Entry, told: Verified, timeout: Seconds | None) -> bool:
        try:
            is_mended = await self._read_all(past, entry, timeout)
        except DamagedValue as error:
            told.damaged[entry.key] = error.message
            return True
        if told.damaged.pop(entry.key, None) is not None or is_mended:
            told.mended.append(entry.key)
        return False

    async def _read_all(self, past: AsyncSession, entry: Entry, timeout: Seconds | None) -> bool:
        """All values of a key. A listing shows null for what cannot be read; what reads one key alone is refused, or
        gets what has been mended since the listing: True, where that can be told.
        """
        key = entry.key
        if entry.kind == "blob":
            blob = await past.get_blob(key, timeout=timeout)
            while blob is not None and await blob.read(_READ_BYTES):
                pass
        elif entry.kind == "log":
            await past.log_items(key, timeout=timeout)
        elif entry.kind == "set":
            await past.member_items(key, timeout=timeout)
        elif entry.kind == "map":
            await past.fields(key, timeout=timeout)
        elif entry.value is None or any(each.value is None for each in entry.siblings):
            now = await past.entry(key, timeout=timeout)
            return entry.kind == "register" and now is not None and _values(now) != _values(entry)
        return False

    # -- going back ------------------------------------------------------------------------------------------

    async def diff(
        self,
        before: Point,
        after: Point | None = None,
        *,
        prefix: str = "",
        start: str | None = None,
        limit: int | None = None,
        timeout: Seconds | None = None,
    ) -> Listing[Difference]:
        """The keys that say something else at ``after`` (now, if not given) than at ``before``, in order; from the
        first one after ``start``, at most ``limit``.

        A point is the name of a checkpoint, a token or a ``datetime``, as for :meth:`get`. Beside what differs it holds
        a page of keys at a time, however many there are; ``timeout`` is for each page.

        :raises TooOld: a point lies before the history that this node keeps.
        """
        from crdtsync.client.operations.listings import Selection
        from crdtsync.client.operations.restore import diff, named_point

        timeout_s = limit_s(timeout, self.timeout_s)
        until = named_point(after) if after is not None else await self.run(self._operations.now(timeout_s), timeout_s)
        wanted = Selection(prefix, start, limit)
        plan = diff(self._at(named_point(before)), self._at(until), wanted, _map_in, timeout_s)
        return await self.run(plan, timeout_s)

    async def restore(
        self,
        point: Point,
        *,
        prefix: str | Iterable[str] | None = None,
        dry_run: bool = False,
        progress: Callable[[int], object] | None = None,
        w: WriteConcern = None,
        timeout: Seconds | None = None,
    ) -> Restored:
        """Write what was there at a point of the past: the name of a checkpoint, a token or a ``datetime``.

        It removes what came later and brings back what was overwritten or deleted, of all kinds. It is a write like any
        other, on disk on return: it supersedes what was there when it began, and what others write meanwhile lives on
        beside it, as a sibling. Up to 1,000 keys are one change. Where there are more it is several, and each blob is
        put anew: if it is cut off, do it again, and it goes on with what is left. ``timeout`` is for each change.

        :param prefix: only keys that begin so, or with one of these; if not given, those of the checkpoint.
        :param dry_run: write nothing, and say what would be done.
        :param progress: is called after each change with the number of its keys.
        :raises TooOld: the point lies before the history that this node keeps.
        """
        return await self._go_back(point, None, prefix, dry_run, progress, w, timeout)

    async def undo(
        self,
        agent: str,
        since: Point,
        *,
        prefix: str | Iterable[str] | None = None,
        dry_run: bool = False,
        progress: Callable[[int], object] | None = None,
        w: WriteConcern = None,
        timeout: Seconds | None = None,
    ) -> Restored:
        """Take back what one agent has done since a point, key by key, where nobody else has written since.

        The other keys that it has written are ``left`` alone, each with who else wrote it. Up to 100 keys are one
        change; otherwise as :meth:`restore`.
        """
        return await self._go_back(since, agent, prefix, dry_run, progress, w, timeout)

    async def _go_back(
        self,
        point: Point,
        agent: str | None,
        prefix: str | Iterable[str] | None,
        dry_run: bool,
        progress: Callable[[int], object] | None,
        w: WriteConcern,
        timeout: Seconds | None,
    ) -> Restored:
        from crdtsync.client.operations.restore import named_point, prefixes_of, restore

        timeout_s, at = limit_s(timeout, self.timeout_s), named_point(point)
        if prefix is None:
            prefixes = await self.run(prefixes_of(self._operations, at, timeout_s), timeout_s)
        else:
            prefixes = [prefix] if isinstance(prefix, str) else list(prefix)
        plan = restore(
            self._operations, at, prefixes, undo=agent, dry_run=dry_run, w=w, timeout_s=timeout_s, progress=progress
        )
        done, blobs, seen = await self.run(plan, timeout_s)
        for key in blobs:
            try:
                token = None if dry_run or seen is None else await self._put_back(key, at, seen, w, timeout)
            except (DamagedValue, InvalidRequest, TooOld, TooLarge) as error:
                done.left[key] = error.message
            else:
                done.restored.append(key)
                done.token = token or done.token
        return done

    async def _put_back(
        self, key: str, at: str | int, start: str, w: WriteConcern, timeout: Seconds | None
    ) -> str | None:
        """Put the blobs anew that a key held, as one who had seen what there was at ``start``; the last token."""
        from crdtsync.client.aio.blob import AsyncBlob
        from crdtsync.client.operations import forks
        from crdtsync.client.operations.restore import left_of

        session: AsyncSession = self.session()  # type: ignore[attr-defined]  # this is a part of it
        timeout_s = limit_s(timeout, self.timeout_s)
        entry = await self.run(self._at(at).entry(key, None, timeout_s), timeout_s)
        seen, token = forks.seen_with(forks.vector_seen(start, self.space), None), None
        for one in () if entry is None else (entry, *entry.siblings):
            ttl = left_of(one)
            if ttl is not None and ttl <= 0:
                continue
            blob = AsyncBlob(session, session._operations, one)  # noqa: SLF001  # of the same client
            token = await session._copy_blob(blob, seen, ttl, w, timeout)  # noqa: SLF001
            seen = forks.UNSEEN
        return token


def _values(entry: Entry) -> list[object]:
    return [one.value for one in (entry, *entry.siblings)]


def _map_in(update: bytes) -> Any:
    from crdtsync.client.text.tree import DocumentTree

    return DocumentTree(update).get("")
