"""Blobs in the asyncio client: bytes of any length."""

from __future__ import annotations

from asyncio import to_thread
from typing import TYPE_CHECKING, Any

from crdtsync.client.aio.methods.base import AsyncMethods
from crdtsync.client.protocol.steps import limit_s

if TYPE_CHECKING:
    from collections.abc import Callable

    from crdtsync.client.aio.blob import AsyncBlob
    from crdtsync.client.operations.blobs import Source
    from crdtsync.client.session.request_context import Seen, WriteConcern
    from crdtsync.client.values.durations import Seconds
    from crdtsync.client.values.points import Point
    from crdtsync.client.values.write_result import Written


class AsyncBlobMethods(AsyncMethods):
    """The part of a session that stores and reads blobs."""

    async def put_blob(
        self,
        key: str,
        source: Source,
        *,
        media_type: str | None = None,
        ttl: Seconds | None = None,
        if_version: str | None = None,
        if_absent: bool = False,
        seen: Seen = ...,
        confidence: float | None = None,
        meta: dict[str, Any] | None = None,
        progress: Callable[[int, int | None], object] | None = None,
        w: WriteConcern = None,
        timeout: Seconds | None = None,
    ) -> Written:
        """Store bytes of any length under ``key``; the token. On return all of them are on disk.

        ``source`` is bytes, the path of a file, or a file object that gives bytes. No more than a MiB of it is in
        memory. Nobody sees anything of it before the end, and then every node shows the whole blob or nothing. Replaced
        values, conditions and options are as in :meth:`set`.

        If a put is cut off, do it again: if the source can be read twice, parts that are stored on this host are not
        sent again. An upload that nobody finishes within a day is cleared away.

        :param media_type: what the bytes are, such as ``application/pdf``.
        :param progress: is called with the bytes that are stored, and with all that there are (None: not known).
        :param timeout: for each request, of which there is one for each MiB.
        :raises TooLarge: it is longer than the daemon's ``blob_bytes_max`` (1 GiB).
        :raises InvalidRequest: the source has changed while it was read.
        """
        from crdtsync.client.operations import blobs

        timeout_s = limit_s(timeout, self.timeout_s)
        with await to_thread(blobs.BlobReading, source) as reading:
            stored: list[bytes] = []
            digest = await to_thread(reading.hash_ahead)
            upload = blobs.new_upload(digest)
            if digest is not None:
                found = blobs.unfinished(self._operations, key, digest, timeout_s)
                upload, stored = await self.run(found, timeout_s)
            while parts := await to_thread(reading.portion):
                missing = [part for part in parts if not part.is_one_of(stored)]
                if missing:
                    await self._write(blobs.write_parts(self._operations, key, upload, missing), None, timeout)
                if progress is not None:
                    progress(reading.done, reading.total)
            manifest = reading.manifest(upload, media_type, digest)
        write = blobs.set_blob(
            self._operations,
            key,
            manifest,
            ttl=ttl,
            if_version=if_version,
            if_absent=if_absent,
            seen=seen,
            confidence=confidence,
            meta=meta,
        )
        return await self._write(write, w, timeout)

    async def _copy_blob(
        self, source: AsyncBlob, seen: Seen, ttl: float | None, w: WriteConcern = None, timeout: Seconds | None = None
    ) -> Written:
        """Put a blob that is read elsewhere, in another space or in the past, under its key here."""
        from crdtsync.client.operations import blobs

        timeout_s, entry = limit_s(timeout, self.timeout_s), source.entry
        upload, stored = await self.run(
            blobs.unfinished(self._operations, source.key, source.sha256, timeout_s), timeout_s
        )
        while parts := blobs.parts_at(source.tell(), await source.read(blobs.PORTION_BYTES)):
            if missing := [part for part in parts if not part.is_one_of(stored)]:
                await self._write(blobs.write_parts(self._operations, source.key, upload, missing), None, timeout)
        write = blobs.set_blob(
            self._operations,
            source.key,
            blobs.manifest_in(entry)._replace(upload=upload),
            ttl=ttl,
            if_version=None,
            if_absent=False,
            seen=seen,
            confidence=entry.confidence,
            meta=entry.meta,
        )
        return await self._write(write, w, timeout)

    async def get_blob(
        self, key: str, *, after: str | None = None, at: Point | None = None, timeout: Seconds | None = None
    ) -> AsyncBlob | None:
        """A blob to be read like a file, with ``size``, ``sha256`` and ``media_type``; None if the key is absent.

        Its bytes are fetched part by part when they are read. ``after`` and ``at`` are as of :meth:`get`. The bytes of
        a blob that was removed are there while a checkpoint holds them.

        :raises KindMismatch: the key holds something else.
        """
        from crdtsync.client.aio.blob import AsyncBlob
        from crdtsync.client.operations.keys import Operations

        timeout_s = limit_s(timeout, self.timeout_s)
        entry = await self.run(self._as_of(at).entry(key, after, timeout_s), timeout_s)
        if entry is None:
            return None
        now = {name: value for name, value in self._overrides.items() if name != "at"}
        return AsyncBlob(self, Operations(now, self._operations.horizon), entry)
