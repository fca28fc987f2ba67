"""The blocking client: every operation as a method, safe for use by many threads at once."""

from __future__ import annotations

from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Any, Self
from weakref import WeakSet, WeakValueDictionary

from crdtsync.client.blocking.connection import Connection
from crdtsync.client.blocking.methods.access import AccessMethods
from crdtsync.client.blocking.methods.blobs import BlobMethods
from crdtsync.client.blocking.methods.checkpoints import CheckpointMethods
from crdtsync.client.blocking.methods.cluster import ClusterMethods
from crdtsync.client.blocking.methods.coordination import CoordinationMethods
from crdtsync.client.blocking.methods.daemon import DaemonMethods
from crdtsync.client.blocking.methods.editors import EditorMethods
from crdtsync.client.blocking.methods.explain import ExplainMethods
from crdtsync.client.blocking.methods.forks import ForkMethods
from crdtsync.client.blocking.methods.history import HistoryMethods
from crdtsync.client.blocking.methods.keys import KeyMethods
from crdtsync.client.blocking.methods.kinds import KindMethods
from crdtsync.client.blocking.methods.mirrors import MirrorMethods
from crdtsync.client.blocking.methods.resolvers import ResolverMethods
from crdtsync.client.blocking.methods.schemas import SchemaMethods
from crdtsync.client.blocking.methods.spaces import SpaceMethods
from crdtsync.client.operations.keys import Operations
from crdtsync.client.protocol.address import connection_of
from crdtsync.client.protocol.fork import restart_in_children
from crdtsync.client.protocol.steps import Compute, limit_s
from crdtsync.client.session.tokens import Past
from crdtsync.client.values.durations import seconds
from crdtsync.client.values.points import point_argument
from crdtsync.errors import CrdtSyncError

if TYPE_CHECKING:
    import os

    from crdtsync.client.blocking.document import Document
    from crdtsync.client.blocking.text import Text
    from crdtsync.client.blocking.text_lock import TextLock
    from crdtsync.client.blocking.watch import Watch
    from crdtsync.client.session.request_context import Arguments
    from crdtsync.client.streams.changes_state import Changes
    from crdtsync.client.text.operations import TextOperations
    from crdtsync.client.values.durations import Seconds
    from crdtsync.client.values.points import Point


class Session(
    AccessMethods,
    BlobMethods,
    CheckpointMethods,
    ClusterMethods,
    CoordinationMethods,
    DaemonMethods,
    EditorMethods,
    ExplainMethods,
    ForkMethods,
    HistoryMethods,
    KeyMethods,
    KindMethods,
    MirrorMethods,
    ResolverMethods,
    SchemaMethods,
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

    # -- texts, watches, sessions -------------------------------------------------------------------------------

    def text(self, key: str) -> Text:
        """A handle on the text at ``key``. Nothing is sent yet."""
        from crdtsync.client.blocking.text import Text
        from crdtsync.client.blocking.text_lock import TextLock
        from crdtsync.client.text.operations import TextOperations

        with self._text_lock:
            if self._texts is None:
                self._texts = TextOperations(self._operations)
            return Text(self, self._texts, key, self._text_locks.setdefault(key, TextLock()))

    def doc(self, key: str) -> Document:
        """A handle on the nested maps and lists at ``key``. Nothing is sent yet."""
        from crdtsync.client.blocking.document import Document
        from crdtsync.client.text.operations import TextOperations

        with self._text_lock:
            if self._texts is None:
                self._texts = TextOperations(self._operations)
            return Document(self, self._texts, key)

    def watch(
        self, prefix: str = "", *, after: str | None = None, snapshot: bool = True, timeout: Seconds | None = None
    ) -> Watch:
        """Iterate over the changes of the keys that start with ``prefix``: first a snapshot, then each change as it
        comes.

        With ``after`` (a token) it goes on from there instead, and with ``snapshot=False`` it tells only what comes
        from now on. It has a connection of its own and resumes by itself, without a gap, when that breaks. It ends when
        it or the client is closed. With ``timeout`` each wait for an event that takes longer raises
        :class:`~crdtsync.errors.Timeout`, after which the iteration can go on; without, it waits for ever.
        """
        from crdtsync.client.blocking.watch import Watch

        if after is None and not snapshot:
            after = self.now()
        watch = Watch(
            self._connection, self._operations.memory, prefix, after, self._overrides, timeout, self.timeout_s
        )
        self._watches.add(watch)
        return watch

    def changes(self, prefix: str = "", *, after: str | None = None, timeout: Seconds | None = None) -> Changes:
        """The keys that start with ``prefix`` and have changed since ``after``, a token of an earlier answer.

        Each is named once, however often it changed. Without ``after`` all keys are named. Nothing counts as read.

        :raises Timeout: the answer did not come in time.
        """
        from crdtsync.client.blocking.changes import ChangesWatch

        timeout_s = limit_s(timeout, self.timeout_s)
        return ChangesWatch(
            self._connection, self._operations.memory, prefix, after, self._overrides, timeout_s, timeout_s
        ).answer()

    def session(
        self,
        agent: str | None = None,
        *,
        space: str | None = None,
        at: Point | None = None,
        schema_version: int | None = None,
    ) -> Session:
        """Another author over the same connection, with its own memory of what it has read.

        With ``at`` it reads the past (see :meth:`get`) and nothing else: what would write or watch is refused.
        ``schema_version`` is the version of the schemas that its author knows: it may not write under newer ones.
        """
        overrides = dict(self._overrides)
        overrides |= {"agent": agent} if agent else {}
        overrides |= {"space": space} if space else {}
        overrides |= {} if at is None else {"at": point_argument(at)}
        overrides |= {} if schema_version is None else {"schema_version": schema_version}
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

    def _compute(self, step: Compute) -> Any:
        return step.function(step.argument)

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
    :param agent: the name to write under, such as ``Research Lead``; else CRDTSYNC_AGENT, or one made of the user and
        the program.
    :param after: a token, such as another client's :attr:`token`; else CRDTSYNC_AFTER. Whatever this client does, its
        daemon first waits until it holds what that names; an operation that waits in vain raises Timeout and says
        what is missing. The client asks the same by itself of a daemon that it comes to by reconnecting.
    :param timeout: the time limit of every operation that is given none, in seconds or as a timedelta.
    :param wait: how long to wait for a daemon that is not there yet. Later on this is not needed: whatever is asked,
        watched, mirrored or edited while the daemon restarts waits for it, as long as ``timeout`` allows.
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
        wait: Seconds = 0.0,
        agent_key: str | os.PathLike[str] | None = None,
    ) -> None:
        timeout_s = limit_s(timeout, 0)
        until = monotonic() + seconds(wait, "wait")
        connection = connection_of(Connection, socket, space, agent, after, agent_key)
        connection.attach(max(monotonic() + timeout_s, until), until)
        super().__init__(connection, timeout_s, {})

    def close(self) -> None:
        """End the connection and this client's watches; requests of other threads that are in flight fail."""
        try:
            super().close()
        except CrdtSyncError:  # of an editor; when it was interrupted it can be closed again
            self._connection.close()
            raise
        self._connection.close()
