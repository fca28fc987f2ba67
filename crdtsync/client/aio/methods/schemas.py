"""What the asyncio client does with schemas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crdtsync.client.aio.methods.base import AsyncMethods
from crdtsync.client.operations import schemas
from crdtsync.client.protocol.steps import limit_s

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    from crdtsync.client.session.request_context import WriteConcern
    from crdtsync.client.values.durations import Seconds
    from crdtsync.client.values.listing import Listing
    from crdtsync.client.values.results import Purge, Schema
    from crdtsync.client.values.write_result import Written


class AsyncSchemaMethods(AsyncMethods):
    """The part of a session that declares things of keys, for everybody and on every node."""

    async def schema_set(
        self,
        pattern: str,
        policy: str | None = "lww",
        *,
        refuse_lower: bool = False,
        history: bool | int | timedelta = True,
        kind: str | None = None,
        json_schema: dict[str, Any] | None = None,
        ttl: Seconds | None = None,
        sliding: bool = False,
        writers: Sequence[str] | None = None,
        version: int | None = None,
        older: str = "refuse",
        max_entries: int | None = None,
        max_bytes: int | None = None,
        w: WriteConcern = None,
        timeout: Seconds | None = None,
    ) -> Written:
        """Declare what holds for all keys that match ``pattern``, on every node; returns the token.

        It replaces what was declared for the same pattern. A read policy applies to what is written already. The
        other rules are checked by the writer's node at each write from now on, which is refused with
        :class:`~crdtsync.errors.SchemaMismatch`; what other nodes write before they hear of it comes in all the same.

        :param pattern: a key, or with ``*`` for one part and ``**`` for any number of parts; of those that match a
            key the most specific one applies.
        :param policy: which of several concurrent values readers are shown first, of a register and of each field of
            a map: ``"lww"`` (the newest, as without a schema), ``"all"`` (:meth:`get` gives the list of all),
            ``"max"``, ``"min"`` (by value), ``"confidence"`` (the highest), ``"first"`` (the oldest), ``"manual"``
            (:meth:`get` raises :class:`~crdtsync.errors.Unresolved` until somebody resolves), or None to remove the
            schema.
        :param refuse_lower: with ``max``, ``min``, ``confidence`` and ``first``: refuse a later write that ranks lower
            than the value shown on this node, with :class:`~crdtsync.errors.RanksLower`. Writes of other hosts at the
            same time are siblings still.
        :param history: how much history each host keeps of these keys, all together: True, as of all others; False,
            none; so many bytes; or what ended within that time. So keys that are written all the time do not push the
            history of others out. What is over the cap goes within seconds, from :meth:`history` with ``lost`` too.
        :param kind: the only kind that is written: ``"register"``, ``"log"`` …
        :param json_schema: of the value of a register, of an element of a log or set, and of a map of each field that
            is written, as ``{field: value}``. Dialect 2020-12, without ``$id``, ``unevaluatedProperties`` and
            references to elsewhere; regular expressions without lookaround. ``format`` is not checked.
        :param ttl: how long a value of a register, blob or log lives that is written without a ``ttl``, in seconds.
        :param sliding: such a value of a register or blob lives for that long again whenever it is read with half of
            its time over: by :meth:`get`, :meth:`entry`, :meth:`get_many` or :meth:`get_blob`, on any host. Listings,
            watches, mirrors and reads of the past do not count. What was read only where its host cannot hear of it
            in time is gone in the end.
        :param writers: the only agents that may write, by name.
        :param version: of the schema, from 1; never lower than before. A session that says it knows an older one
            (``session(schema_version=1)``) is refused.
        :param older: ``"mark"``: it is not, nor is what it writes held against ``json_schema``. What sessions write
            that say which version they know has that in its ``meta``, as ``schema_version``. Counters, sets and texts,
            which have no ``meta``, bear no mark.
        :param max_entries: with the kind ``"register"``, the keys that the pattern has, up to 5,000; with ``"log"``,
            the elements of each log. A write of one more removes the oldest, in the same change; to write a key anew
            removes nothing. So it is on each host by what that knows: hosts that are cut off may have more together,
            until one of them writes.
        :param max_bytes: the same of the bytes of all values, as msgpack.
        :raises InvalidRequest: something of it is not allowed, or the JSON Schema takes too long to check; the message
            says what.
        """
        fields = {"kind": kind, "json_schema": json_schema, "ttl": ttl, "writers": writers, "version": version}
        fields |= {"max_entries": max_entries, "max_bytes": max_bytes, "older": None if older == "refuse" else older}
        fields["sliding"] = sliding or None
        write = schemas.schema_set(self._operations, pattern, policy, refuse_lower, history, fields)
        return await self._write(write, w, timeout)

    async def schemas(self, *, after: str | None = None, timeout: Seconds | None = None) -> Listing[Schema]:
        """All schemas of the space, by pattern. With ``after`` (a token) it waits until this daemon holds that."""
        timeout_s = limit_s(timeout, self.timeout_s)
        return await self.run(schemas.schemas(self._operations, {}, after, timeout_s), timeout_s)

    async def schema(
        self, key: str, *, exact: bool = False, after: str | None = None, timeout: Seconds | None = None
    ) -> Schema | None:
        """The schema that applies to ``key``: that of the most specific pattern which matches it; None if none does.

        :param exact: take ``key`` for a pattern, and give what is declared for just that.
        """
        timeout_s = limit_s(timeout, self.timeout_s)
        choice: dict[str, object] = {"pattern" if exact else "key": key}
        found = await self.run(schemas.schemas(self._operations, choice, after, timeout_s), timeout_s)
        return found[0] if found else None

    async def purge(self, pattern: str, *, w: WriteConcern = None, timeout: Seconds | None = None) -> Written:
        """Delete what the keys of ``pattern`` hold, and have every host forget all that they ever held; the token.

        On return this host has the order on disk, and readers see no value any more. Then each host takes the values
        out of its history, log, texts and replies kept for retries, and wipes its files: :meth:`purges` says when this
        host is done. A host that is away does so when it is back. What others write at the same time stays.

        Kept are the names of keys, who wrote when, and a hash of each value; not reached are backups, what agents hold,
        and what a disk keeps of overwritten blocks.

        :param pattern: a key, or with ``*`` for one part and ``**`` for any number of parts.
        :raises InvalidRequest: the pattern is not one.
        :raises NotAllowed: the agent has no ``admin`` on all these keys.
        """
        return await self._write(schemas.purge(self._operations, pattern), w, timeout)

    async def purges(
        self, pattern: str | None = None, *, after: str | None = None, timeout: Seconds | None = None
    ) -> Listing[Purge]:
        """The purges of the space, by pattern, or that of ``pattern`` alone, and what became of each on this host."""
        timeout_s = limit_s(timeout, self.timeout_s)
        return await self.run(schemas.purges(self._operations, pattern, after, timeout_s), timeout_s)
