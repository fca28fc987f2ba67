"""Keys as wholes in the asyncio client, whatever their kind: read, write, settle, wait."""

from __future__ import annotations

from contextlib import asynccontextmanager
from time import monotonic
from typing import TYPE_CHECKING, Any

from crdtsync.client.aio.methods.base import AsyncMethods
from crdtsync.client.operations import writes
from crdtsync.client.operations.listings import Selection
from crdtsync.client.protocol.steps import limit_s
from crdtsync.client.session.request_context import seen_or
from crdtsync.client.values.durations import milliseconds, seconds
from crdtsync.client.values.encoding import encode

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable

    from crdtsync.client.operations.batch import Batch
    from crdtsync.client.session.request_context import Arguments, Seen, WriteConcern
    from crdtsync.client.values.durations import Seconds
    from crdtsync.client.values.listing import Listing
    from crdtsync.client.values.points import Point
    from crdtsync.client.values.results import Card, Entry
    from crdtsync.client.values.write_result import Written


class AsyncKeyMethods(AsyncMethods):
    """The part of a session that reads and writes keys as wholes."""

    # -- reads ------------------------------------------------------------------------------------------------

    async def get(
        self,
        key: str,
        default: Any = None,
        *,
        after: str | None = None,
        at: Point | None = None,
        timeout: Seconds | None = None,
    ) -> Any:
        """The value of ``key``, or ``default`` if it is absent: of a counter an int, of a set or log the list of its
        elements, of a map a dict, of a text a str.

        If there are several concurrent values, this is the winner, and the next ``set`` supersedes it alone. With
        ``after`` (a token) it waits until this daemon holds what the token names.

        With ``at`` it is the value as of a point of the past: a token (all that its author had seen), as
        ``"checkpoint:NAME"``, or a ``datetime`` (what this node showed then). That is exact, with the rights that this
        agent has now, and does not count as read.

        :raises TooOld: the point lies before the history that this node keeps.
        """
        timeout_s = limit_s(timeout, self.timeout_s)
        return await self._call(self._as_of(at).get(key, default, after, timeout_s), monotonic() + timeout_s)

    async def entry(
        self, key: str, *, after: str | None = None, at: Point | None = None, timeout: Seconds | None = None
    ) -> Entry | None:
        """The value of ``key`` with its author, time, version and siblings; None if it is absent.

        The next ``set`` supersedes the winner and all siblings that this handed over.
        """
        timeout_s = limit_s(timeout, self.timeout_s)
        return await self.run(self._as_of(at).entry(key, after, timeout_s), timeout_s)

    async def get_many(
        self, keys: Iterable[str], *, after: str | None = None, at: Point | None = None, timeout: Seconds | None = None
    ) -> dict[str, Any]:
        """The values of several keys, of those that there are, in one request: see :meth:`get`.

        All of them are of one moment, up to 1,000 keys and 1 MiB; what is more comes in further requests. Keys with
        long values are read one by one, as in :meth:`items`.
        """
        timeout_s = limit_s(timeout, self.timeout_s)
        return await self.run(self._as_of(at).get_many(keys, after, timeout_s), timeout_s)

    async def keys(
        self,
        prefix: str = "",
        *,
        start: str | None = None,
        limit: int | None = None,
        reverse: bool = False,
        delimiter: str | None = None,
        where_meta: dict[str, Any] | None = None,
        after: str | None = None,
        at: Point | None = None,
        timeout: Seconds | None = None,
    ) -> Listing[str]:
        """The keys that start with ``prefix``, sorted; from the first one after ``start``, at most ``limit``.

        ``reverse=True`` goes from the last key to the first, and ``start`` then means the last one before it: with
        ``limit=1`` it is the newest of keys that end in a time or a number of fixed width. With ``delimiter="/"`` it is
        like a directory: keys right below ``prefix`` are in the list, and what lies deeper is in ``prefixes`` of the
        list, ``plan/steps/`` once for all keys that begin so. ``where_meta={"role": "critic"}`` takes only the keys
        whose ``meta`` has these fields with these values; the daemon looks at each key under the prefix for that.

        Large answers are fetched page by page, so a key that is written meanwhile may or may not be among them. To
        follow what comes then, watch with ``after`` set to the ``token`` of the list
        (:class:`~crdtsync.client.Listing`).
        """
        selection = Selection(prefix, start, limit, reverse, delimiter, where_meta)
        timeout_s = limit_s(timeout, self.timeout_s)
        return await self.run(self._as_of(at).keys(selection, after, timeout_s), timeout_s)

    async def items(
        self,
        prefix: str = "",
        *,
        start: str | None = None,
        limit: int | None = None,
        reverse: bool = False,
        delimiter: str | None = None,
        where_meta: dict[str, Any] | None = None,
        after: str | None = None,
        at: Point | None = None,
        timeout: Seconds | None = None,
    ) -> Listing[tuple[str, Any]]:
        """Keys and their values (as :meth:`get` gives them), like :meth:`keys`. Each counts as read.

        One page shows one moment, so a reader never sees half a batch. A page ends at 1,000 keys, 1 MiB, or 32 texts
        that nobody had used for a minute. Logs, sets, maps and texts over 64 KiB or 1,000 parts are read after it, one
        by one, as they are by then.
        """
        selection = Selection(prefix, start, limit, reverse, delimiter, where_meta)
        timeout_s = limit_s(timeout, self.timeout_s)
        return await self.run(self._as_of(at).items(selection, after, timeout_s), timeout_s)

    async def entries(
        self,
        prefix: str = "",
        *,
        start: str | None = None,
        limit: int | None = None,
        reverse: bool = False,
        delimiter: str | None = None,
        where_meta: dict[str, Any] | None = None,
        values: bool = True,
        after: str | None = None,
        at: Point | None = None,
        timeout: Seconds | None = None,
    ) -> Listing[Entry]:
        """What :meth:`entry` gives of each key, like :meth:`keys` in few requests.

        If a log, set, map or text is over 64 KiB or 1,000 parts, its ``value`` is None: read it by itself. With
        ``values=False`` it is None for all keys, and none of them counts as read.
        """
        selection = Selection(prefix, start, limit, reverse, delimiter, where_meta)
        timeout_s = limit_s(timeout, self.timeout_s)
        return await self.run(self._as_of(at).entries(selection, after, timeout_s, values=values), timeout_s)

    async def conflicts(
        self,
        prefix: str = "",
        *,
        start: str | None = None,
        limit: int | None = None,
        after: str | None = None,
        timeout: Seconds | None = None,
    ) -> Listing[Entry]:
        """The entries that have siblings, of the keys that start with ``prefix``; see :meth:`entry`, :meth:`keys`.

        All their values count as read, so that :meth:`resolve` and ``set`` settle them.
        """
        timeout_s = limit_s(timeout, self.timeout_s)
        return await self.run(self._operations.conflicts(Selection(prefix, start, limit), after, timeout_s), timeout_s)

    async def wait(self, token: str, *, w: WriteConcern = None, timeout: Seconds | None = None) -> int:
        """Wait until this daemon holds what ``token`` names, or ``w`` nodes (a number, ``"majority"``, ``"all"``)
        have it on disk.

        With ``"reached"`` it waits for all nodes that can be reached at the moment, and until this daemon holds what
        they held then: so it has heard of all that was written there before they had it.

        Returns how many hold it. Its :class:`~crdtsync.errors.Timeout` lists them in ``held_by``.
        """
        timeout_s = limit_s(timeout, self.timeout_s)
        return await self.run(self._operations.wait(token, w, timeout_s), timeout_s)

    async def bind(self, key: str, version: str | None, *, timeout: Seconds | None = None) -> int:
        """Bind the values of ``key`` that ``version`` (of a write) covers to this client's connection: when that ends,
        the daemon deletes them. Values that this client sets the key to later go with it; those of others stay. When
        the client deletes the key, nothing is bound any more; with None for a version neither.

        It holds for the connection that there is now, in place of what was bound of the key before. The daemon does not
        do it when it stops itself; then the client is to bind the key anew. Returns the hybrid time of the space, a
        whole number: what anybody writes after having seen this has a higher one.
        """
        arguments: Arguments = {"key": key} if version is None else {"key": key, "version": version}
        return await self._ask_for(lambda reply: int(reply["clock"]), "bind", arguments, timeout)

    async def vote(
        self,
        key: str,
        owner: bytes,
        ttl: Seconds,
        *,
        fence: int = 0,
        give: bool = False,
        timeout: Seconds | None = None,
    ) -> dict[str, Any]:
        """Ask the voters for ``key``, to renew it with its ``fence``, or to take it back: what claims by quorum are
        made of; see :meth:`claim`. ``owner``: 16 random bytes. When it returns with ``granted``, a majority of the
        voters has promised ``key`` to the owner on disk, for ``ttl`` from before this was called.

        :raises InvalidRequest: there are no voters.
        """
        arguments: Arguments = {"key": key, "owner": owner, "ttl": milliseconds(seconds(ttl, "ttl")), "fence": fence}
        if give:
            arguments["give"] = True
        return await self._ask("vote", arguments, timeout)

    async def show(self, key: str, value: Any, *, timeout: Seconds | None = None) -> None:
        """Show ``value`` under ``key`` to all hosts while this client's connection lasts. Nothing of it is stored, and
        nothing that is stored under the key changes. None: show nothing there any more.

        It holds for the connection that there is now; after another one, and after a restart of the daemon, the client
        is to show it again. A value has 2 KiB at most, packed.

        :raises QuotaExceeded: the connection shows 100 cards already, or the host 1,000, or 256 KiB.
        """
        arguments: Arguments = {"key": key} if value is None else {"key": key, "value": encode(value)}
        await self._ask_for(lambda _: None, "show", arguments, timeout)

    async def shown(self, prefix: str = "", *, timeout: Seconds | None = None) -> list[Card]:
        """The cards under keys that start with ``prefix``, on all hosts that can be reached: see :meth:`show`."""
        from crdtsync.client.values.results import cards_from_wire

        return await self._ask_for(cards_from_wire, "shown", {"prefix": prefix}, timeout)

    async def now(self, *, timeout: Seconds | None = None) -> str:
        """A token of all that this daemon holds in the space now, whoever wrote it: a watch ``after`` it shows what
        comes from here on.
        """
        timeout_s = limit_s(timeout, self.timeout_s)
        return await self.run(self._operations.now(timeout_s), timeout_s)

    # -- writes -----------------------------------------------------------------------------------------------

    async def set(
        self,
        key: str,
        value: object,
        *,
        ttl: Seconds | None = None,
        if_version: str | None = None,
        if_absent: bool = False,
        seen: Seen = ...,
        confidence: float | None = None,
        meta: dict[str, Any] | None = None,
        bind: bool = False,
        w: WriteConcern = None,
        timeout: Seconds | None = None,
    ) -> Written:
        """Write ``value`` and return the token of the write, a str that knows more (:class:`~crdtsync.client.Written`).

        On return it is on this node's disk; with ``w`` (a number, ``"majority"``, ``"all"``) on so many nodes'. It
        supersedes what this session last read of the key, and wrote since, and nothing newer: what it had not seen
        lives on as a sibling. A session that never read the key, if it wrote it or not, replaces the winner blindly.
        ``seen`` (a version) says instead what the author had seen; None writes blind; ``"?"`` supersedes nothing, so
        that what is there lives on as a sibling.

        :param value: None, bool, int (64 bit), float, str, bytes, or lists and dicts of them; at most 1 MiB.
        :param ttl: forget the value after this time.
        :param if_version: write only if the key is at this version (``entry.version``) on this node.
        :param if_absent: write only if the key is absent on this node.
        :param confidence: how sure the author is, 0 to 1.
        :param meta: anything to keep beside the value.
        :param bind: let the value go with this client's connection, as :meth:`bind` does, and tell ``clock``.
        :raises VersionMismatch: the condition is false; ``current`` is what the key holds, and counts as read.
        :raises InvalidValue: the value cannot be stored exactly; ``path`` says where.
        :raises OutcomeUnknown: the connection broke, and nobody can tell whether it is done.
        """
        write = writes.set_value(
            self._operations,
            key,
            value,
            ttl=ttl,
            if_version=if_version,
            if_absent=if_absent,
            seen=seen,
            confidence=confidence,
            meta=meta,
            bind=bind,
        )
        return await self._write(write, w, timeout)

    async def update(
        self,
        key: str,
        function: Callable[[Any], object | Awaitable[object]],
        *,
        attempts: int = 16,
        siblings: bool = False,
        default: Any = None,
        ttl: Seconds | None = None,
        confidence: float | None = None,
        meta: dict[str, Any] | None = None,
        w: WriteConcern = None,
        timeout: Seconds | None = None,
    ) -> Written:
        """Replace the value by ``function(value)``, again from the start if somebody else on this host wrote in
        between.

        ``function`` gets ``default`` if the key is absent; with ``siblings=True`` it gets the list of all live
        values, winner first, and the result supersedes them all. It may run up to ``attempts`` times, and the time that
        it takes does not count: ``timeout`` limits what comes before, between and after, each time anew. Returns the
        token, with the new value as its ``value``; durable as :meth:`set`.

        Under asyncio, ``function`` may be a coroutine function.

        :raises VersionMismatch: others were faster in every attempt; ``current`` is what the key holds.
        :raises KindMismatch: the key is no register; before the function runs, unless it became one meanwhile.
        """
        timeout_s = limit_s(timeout, self.timeout_s)
        options = {"ttl": ttl, "confidence": confidence, "meta": meta}
        plan = self._operations.update(
            key, function, timeout_s, attempts=attempts, siblings=siblings, default=default, w=w, options=options
        )
        return await self.run(plan, timeout_s)

    async def delete(
        self,
        key: str,
        *,
        if_version: str | None = None,
        seen: Seen = ...,
        w: WriteConcern = None,
        timeout: Seconds | None = None,
    ) -> bool:
        """Delete ``key`` with all siblings that were alive when this session read it (all there are, if it never did).

        Returns whether it existed. A concurrent write survives. On disk on return; the token is :attr:`last_token`.
        """
        write = writes.delete(self._operations, key, seen_or(seen, if_version))
        return await self._write(writes.conditional(write, if_version), w, timeout)

    async def delete_prefix(self, prefix: str, *, w: WriteConcern = None, timeout: Seconds | None = None) -> int:
        """Delete all keys that start with ``prefix``, each with all its siblings, as this daemon has them now; returns
        how many there were.

        Up to 500 keys are one change; if there are more it is not all or nothing. Values that somebody writes meanwhile
        stay. ``timeout`` is for each change.
        """
        timeout_s = limit_s(timeout, self.timeout_s)
        return await self.run(self._operations.delete_prefix(prefix, w, timeout_s), timeout_s)

    async def bring_back(self, *, w: WriteConcern = None, timeout: Seconds | None = None) -> tuple[int, int]:
        """Write anew what snapshots took away of this space that no other node confirmed (alarm ``taken_away``).

        Returns how many values were written, and how many were left: texts, and what has been written again since or
        has expired. A value stands beside what was written to its key meanwhile. Only the host's operators may do this.
        Up to 500 values are one change; what is cut off goes on with the next call. ``timeout`` is for each change.
        """
        timeout_s = limit_s(timeout, self.timeout_s)
        return await self.run(self._operations.bring_back(w, timeout_s), timeout_s)

    async def touch(
        self,
        key: str,
        ttl: Seconds | None,
        *,
        if_version: str | None = None,
        w: WriteConcern = None,
        timeout: Seconds | None = None,
    ) -> bool:
        """Let the value of ``key`` live for ``ttl`` from now on, or for ever with None; returns whether it was there.

        The daemon writes the value anew, with its ``confidence`` and ``meta``, under this agent's name. So where
        another host writes the key at once, both values stay, as siblings. Only registers have a time to live as a
        whole; elements of a log have their own (:meth:`append`).
        """
        write = writes.touch(self._operations, key, ttl)
        return await self._write(writes.conditional(write, if_version), w, timeout)

    async def resolve(
        self,
        key: str,
        *,
        take: str | None = None,
        value: object = ...,
        merge: bool = False,
        if_version: str | None = None,
        seen: Seen = ...,
        w: WriteConcern = None,
        timeout: Seconds | None = None,
    ) -> Written:
        """Settle a conflict: make one value of the siblings that this session has read (of all there are, if it never
        read the key); returns the token.

        Exactly one of these names the value: ``take`` (the dot of an entry or sibling, as :meth:`entry` and
        :meth:`conflicts` show it) keeps that one, whatever its kind; ``value`` writes a new register; ``merge=True``
        joins concurrent texts. Values that the session had not read live on as siblings. If there is only one value,
        taking it does nothing. ``resolved`` of the result says how many values went.

        :raises InvalidRequest: not exactly one of the three, or no live value has that dot.
        :raises StaleRead: the session read the key so long ago that it no longer knows what.
        """
        write = writes.resolve(self._operations, key, take, value, merge, seen_or(seen, if_version))
        return await self._write(writes.conditional(write, if_version), w, timeout)

    @asynccontextmanager
    async def batch(self, *, w: WriteConcern = None, timeout: Seconds | None = None) -> AsyncIterator[Batch]:
        """Several writes as one change, all or none, visible at once everywhere.

        They are sent when the ``async with`` block ends, and not at all if it ends with an exception; the block's end
        raises what :meth:`set` does. Then :attr:`Batch.token` and :attr:`Batch.results` are there.

        Under asyncio, the batch's own methods are no coroutines.
        """
        from crdtsync.client.operations.batch import Batch

        timeout_s = limit_s(timeout, self.timeout_s)
        batch = Batch(self._operations, w)
        yield batch
        await self.run(batch.commit(timeout_s), timeout_s)
