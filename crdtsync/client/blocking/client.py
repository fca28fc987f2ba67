"""The blocking client: every operation as a method, safe for use by many threads at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, Self, TypeVar
from weakref import WeakSet, WeakValueDictionary

from crdtsync.client.blocking.connection import Connection
from crdtsync.client.blocking.methods.access import AccessMethods
from crdtsync.client.blocking.methods.cluster import ClusterMethods
from crdtsync.client.blocking.methods.daemon import ServiceMethods
from crdtsync.client.blocking.methods.editors import EditorMethods
from crdtsync.client.blocking.methods.explain import ExplainMethods
from crdtsync.client.blocking.methods.history import HistoryMethods
from crdtsync.client.blocking.methods.keys import PlainMethods
from crdtsync.client.blocking.methods.kinds import KindMethods
from crdtsync.client.blocking.methods.mirrors import MirrorMethods
from crdtsync.client.blocking.methods.resolvers import ResolverMethods
from crdtsync.client.blocking.methods.schemas import SchemaMethods
from crdtsync.client.blocking.methods.spaces import SpaceMethods
from crdtsync.client.operations import writes
from crdtsync.client.operations.keys import Operations
from crdtsync.client.protocol.address import connection_of
from crdtsync.client.protocol.fork import restart_in_children
from crdtsync.client.protocol.steps import Call, Compute, Plan, Step, limit_s, unfit
from crdtsync.client.session.request_context import seen_or
from crdtsync.client.session.tokens import Past
from crdtsync.client.values.listing import Listing
from crdtsync.errors import CrdtSyncError

if TYPE_CHECKING:
    import os

    from crdtsync.client.blocking.text import Text, TextLock
    from crdtsync.client.blocking.watch import Watch
    from crdtsync.client.operations.batch import Batch
    from crdtsync.client.session.request_context import Arguments, Seen, WriteConcern
    from crdtsync.client.text.operations import TextOperations
    from crdtsync.client.values.durations import Seconds
    from crdtsync.client.values.results import Entry
    from crdtsync.client.values.write_result import Written

T = TypeVar("T")


class Session(
    AccessMethods,
    ClusterMethods,
    EditorMethods,
    ExplainMethods,
    HistoryMethods,
    KindMethods,
    MirrorMethods,
    PlainMethods,
    ResolverMethods,
    SchemaMethods,
    ServiceMethods,
    SpaceMethods,
    Past,
):
    """What one author does over a client's connection: it has its own memory of what it has read.

    Threads that share a session are one author: what one of them reads, a write by another supersedes. Where that is
    not meant, give each its own :meth:`session`.

    Every method raises :class:`~crdtsync.errors.Timeout` when its ``timeout`` (seconds or timedelta; the client's if
    not given) ends first, and :class:`~crdtsync.errors.Refused` or one of its kinds when the daemon says no. A write
    whose Timeout has no ``token`` may or may not be done.
    """

    def __init__(self, connection: Connection, timeout_s: float, overrides: Arguments) -> None:
        self._connection = connection
        self.timeout_s = timeout_s
        self._overrides = overrides
        self._operations = Operations(overrides, connection.horizon)
        self._texts: TextOperations | None = None
        self._text_lock = Lock()
        self._text_locks: WeakValueDictionary[str, TextLock] = WeakValueDictionary()
        self._watches: WeakSet[Watch] = WeakSet()
        restart_in_children(self)

    # -- reads ------------------------------------------------------------------------------------------------

    def entry(self, key: str, *, after: str | None = None, timeout: Seconds | None = None) -> Entry | None:
        """The value of ``key`` with its author, time, version and siblings; None if it is absent.

        The next ``set`` supersedes the winner and all siblings that this handed over.
        """
        timeout_s = limit_s(timeout, self.timeout_s)
        return self.run(self._operations.entry(key, after, timeout_s), timeout_s)

    def keys(
        self,
        prefix: str = "",
        *,
        start: str | None = None,
        limit: int | None = None,
        after: str | None = None,
        timeout: Seconds | None = None,
    ) -> Listing[str]:
        """The keys that start with ``prefix``, sorted; from the first one after ``start``, at most ``limit``.

        Large answers are fetched page by page, so a key that is written meanwhile may or may not be among them. To
        follow what comes then, watch with ``after`` set to the ``token`` of the list
        (:class:`~crdtsync.client.Listing`).
        """
        timeout_s = limit_s(timeout, self.timeout_s)
        return self.run(self._operations.keys(prefix, start, limit, after, timeout_s), timeout_s)

    def items(
        self,
        prefix: str = "",
        *,
        start: str | None = None,
        limit: int | None = None,
        after: str | None = None,
        timeout: Seconds | None = None,
    ) -> Listing[tuple[str, Any]]:
        """Keys and their values (as :meth:`get` gives them), like :meth:`keys`. Each counts as read.

        What comes in one page is of one moment, so no batch is seen by halves: a page ends at 1,000 keys, 1 MiB, or
        32 texts that nobody had used for a minute. Logs, sets, maps and texts over 64 KiB or 1,000 parts are read
        after it, one by one, as they are by then.
        """
        timeout_s = limit_s(timeout, self.timeout_s)
        return self.run(self._operations.items(prefix, start, limit, after, timeout_s), timeout_s)

    def entries(
        self,
        prefix: str = "",
        *,
        start: str | None = None,
        limit: int | None = None,
        values: bool = True,
        after: str | None = None,
        timeout: Seconds | None = None,
    ) -> Listing[Entry]:
        """What :meth:`entry` gives of each key, like :meth:`keys` in few requests.

        Of logs, sets, maps and texts over 64 KiB or 1,000 parts the ``value`` is None: read them one by one. With
        ``values=False`` it is None of all keys, and none of them counts as read.
        """
        timeout_s = limit_s(timeout, self.timeout_s)
        return self.run(self._operations.entries(prefix, start, limit, after, timeout_s, values=values), timeout_s)

    def conflicts(
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
        return self.run(self._operations.conflicts(prefix, start, limit, after, timeout_s), timeout_s)

    def wait(self, token: str, *, w: WriteConcern = None, timeout: Seconds | None = None) -> int:
        """Wait until this daemon holds what ``token`` names, or ``w`` nodes (a number, ``"majority"``, ``"all"``)
        have it on disk.

        Returns how many hold it. Its :class:`~crdtsync.errors.Timeout` lists them in ``held_by``.
        """
        timeout_s = limit_s(timeout, self.timeout_s)
        return self.run(self._operations.wait(token, w, timeout_s), timeout_s)

    def status(self, *, far: bool = False, timeout: Seconds | None = None) -> dict[str, Any]:
        """What ``crdtsync status --json`` prints; ``far``: nodes reached over others are asked for their lag first."""
        timeout_s = limit_s(timeout, self.timeout_s)
        return self.run(self._operations.status(far), timeout_s)

    # -- writes -----------------------------------------------------------------------------------------------

    def update(
        self,
        key: str,
        function: Callable[[Any], object],
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

        :raises VersionMismatch: others were faster in every attempt; ``current`` is what the key holds.
        :raises KindMismatch: the key is no register; before the function runs, unless it became one meanwhile.
        """
        timeout_s = limit_s(timeout, self.timeout_s)
        options = {"ttl": ttl, "confidence": confidence, "meta": meta, "w": w}
        plan = self._operations.update(
            key, function, timeout_s, attempts=attempts, siblings=siblings, default=default, options=options
        )
        return self.run(plan, timeout_s)

    def delete(
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
        timeout_s = limit_s(timeout, self.timeout_s)
        return self.run(self._operations.delete(key, timeout_s, if_version=if_version, seen=seen, w=w), timeout_s)

    def resolve(
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

        Exactly one of these says which value: ``take`` (the dot of an entry or sibling, as :meth:`entry` and
        :meth:`conflicts` show it) keeps that one, whatever its kind; ``value`` writes a new register; ``merge=True``
        joins concurrent texts. What the session had not read lives on as a sibling. Where there is only one value,
        taking it does nothing. ``resolved`` of the result says how many values went.

        :raises InvalidRequest: not exactly one of the three, or no live value has that dot.
        :raises StaleRead: the session read the key so long ago that it no longer knows what.
        """
        write = writes.resolve(self._operations, key, take, value, merge, seen_or(seen, if_version))
        return self._write(writes.conditional(write, if_version), w, timeout)

    @contextmanager
    def batch(self, *, w: WriteConcern = None, timeout: Seconds | None = None) -> Iterator[Batch]:
        """Several writes as one change, all or none, visible at once everywhere.

        They are sent when the ``with`` block ends, and not at all if it ends with an exception; the block's end
        raises what
        :meth:`set` does. Then :attr:`Batch.token` and :attr:`Batch.results` are there.
        """
        from crdtsync.client.operations.batch import Batch

        timeout_s = limit_s(timeout, self.timeout_s)
        batch = Batch(self._operations, w)
        yield batch
        self.run(batch.commit(timeout_s), timeout_s)

    # -- texts, watches, sessions -------------------------------------------------------------------------------

    def text(self, key: str) -> Text:
        """A handle on the text at ``key``. Nothing is sent yet."""
        from crdtsync.client.blocking.text import Text, TextLock
        from crdtsync.client.text.operations import TextOperations

        with self._text_lock:
            if self._texts is None:
                self._texts = TextOperations(self._operations)
            return Text(self, self._texts, key, self._text_locks.setdefault(key, TextLock()))

    def watch(self, prefix: str = "", *, after: str | None = None, timeout: Seconds | None = None) -> Watch:
        """Iterate over the changes of the keys that start with ``prefix``: first a snapshot, then each change as it
        comes.

        With ``after`` (a token) it goes on from there instead. It has a connection of its own and resumes by itself,
        without a gap, when that breaks. It ends when it or the client is closed. With ``timeout`` each wait for an
        event that takes longer raises :class:`~crdtsync.errors.Timeout`, after which the iteration can go on;
        without, it waits for ever.
        """
        from crdtsync.client.blocking.watch import Watch

        watch = Watch(
            self._connection, self._operations.memory, prefix, after, self._overrides, timeout, self.timeout_s
        )
        self._watches.add(watch)
        return watch

    def session(self, agent: str | None = None, *, space: str | None = None) -> Session:
        """Another author over the same connection, with its own memory of what it has read."""
        overrides = dict(self._overrides)
        overrides |= {"agent": agent} if agent else {}
        overrides |= {"space": space} if space else {}
        return Session(self._connection, self.timeout_s, overrides)

    def close(self) -> None:
        """End this session's editors (what they hold is sent), watches and mirrors. The connection stays open for the
        client and its other sessions.
        """
        try:
            self._close_editors()
        finally:
            for watch in list(self._watches):
                watch.close()
            self._close_mirrors()
            self._close_resolvers()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- running plans ------------------------------------------------------------------------------------------

    def run(self, plan: Plan[T], timeout_s: float) -> T:
        """Do what a plan says; its result. For the other parts of this library.

        The time limit is for what happens before, between and after runs of the caller's function, each time anew.
        """
        deadline = monotonic() + timeout_s
        step: Step | None = None
        try:
            step = next(plan)
            while True:
                try:
                    outcome = self._do(step, deadline)
                    if type(step) is Compute:
                        deadline = monotonic() + timeout_s  # the time that the caller's function took is the caller's
                except BaseException as error:  # noqa: BLE001  # the plan tidies up and raises it again
                    step = plan.throw(error)
                else:
                    step = plan.send(outcome)
        except StopIteration as done:
            result: T = done.value
            return result
        except KeyError as missing:
            if type(step) is not Call:  # the caller's own function, or value
                raise
            raise unfit(step, missing) from missing

    def _do(self, step: Step, deadline: float) -> Any:  # Any: see Plan
        if type(step) is Call:
            reply = self._connection.call(step, deadline)
            if step.is_write and self._connection.mirrors:
                self._show_in_mirrors(step.arguments, reply["token"], deadline)
            return reply
        if type(step) is Compute:
            return step.function(step.argument)
        sleep(step.seconds)  # type: ignore[union-attr]  # what is left is a Pause
        return None

    def after_fork(self) -> None:
        """In a child process: locks may be held by threads that do not exist there."""
        self._operations.memory.restart()
        self._text_lock = Lock()
        for lock in self._text_locks.values():
            lock.restart()
        if self._texts is not None:
            self._texts.restart()


class Client(Session):
    """A connection to the daemon of this host, for threads and scripts; :class:`AsyncClient` is its twin for asyncio.

    It connects at once, reconnects by itself, and may be used by many threads, whose requests share the connection,
    and after a fork. A write that was cut off by a broken connection is sent again and never done twice.

    :param socket: path of the daemon's socket; else CRDTSYNC_SOCKET, ``$XDG_RUNTIME_DIR/crdtsync/agent.sock``,
        ``/run/crdtsync/agent.sock``.
    :param space: else CRDTSYNC_SPACE, ``default``.
    :param agent: the name to write under; else CRDTSYNC_AGENT, or one made of the user and the program.
    :param after: a token, such as another client's :attr:`token`; else CRDTSYNC_AFTER. Whatever this client does, its
        daemon first waits until it holds what that names; an operation that waits in vain raises Timeout and says
        what is missing. The client asks the same by itself of a daemon that it comes to by reconnecting.
    :param timeout: the time limit of every operation that is given none, in seconds or as a timedelta.
    :param agent_key: what the agent proves its name with, or the path of a file that holds it; else
        CRDTSYNC_AGENT_KEY, or the file CRDTSYNC_AGENT_KEY_FILE. With a key its rights are those of that agent.
    :raises DaemonUnavailable: no daemon answers there; the message says what to do.
    :raises NotAllowed: the key is that of no agent, or the name is that of an agent with a key.
    """

    def __init__(
        self,
        socket: str | os.PathLike[str] | None = None,
        space: str | None = None,
        agent: str | None = None,
        *,
        after: str | None = None,
        timeout: Seconds = 30.0,
        agent_key: str | os.PathLike[str] | None = None,
    ) -> None:
        timeout_s = limit_s(timeout, 0)
        connection = connection_of(Connection, socket, space, agent, after, agent_key)
        connection.attach(monotonic() + timeout_s)
        super().__init__(connection, timeout_s, {})

    def close(self) -> None:
        """End the connection and this client's watches; requests of other threads that are in flight fail."""
        try:
            super().close()
        except CrdtSyncError:  # of an editor; when it was interrupted it can be closed again
            self._connection.close()
            raise
        self._connection.close()
