"""A mirror without its socket: what to ask for, what came, what is shown, and where to go on on a new connection.

What is told waits, unseen, until the daemon says that it is whole; then it is shown at once. So no reader sees half of
a batch, nor a state that the daemon never had.
"""

from __future__ import annotations

from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Any, NoReturn

from crdtsync.causality import covers
from crdtsync.client.mirror.held_values import HeldValue, held_from_wire
from crdtsync.client.mirror.view import Holding, MirrorView, Reads
from crdtsync.client.protocol.fork import restart_in_children
from crdtsync.client.protocol.frames import ERROR, EVENTS, HELLO_ID, RESULT, encode_request
from crdtsync.client.protocol.seen_point import Horizon
from crdtsync.client.streams.resume import Standing
from crdtsync.errors import (
    CrdtSyncError,
    DaemonUnavailable,
    InvalidRequest,
    Timeout,
    TooLarge,
    UnknownSpace,
    from_wire,
)
from crdtsync.wire.tokens import decode_token

if TYPE_CHECKING:
    from collections.abc import Iterable

    from crdtsync.causality import VersionVector
    from crdtsync.client.protocol.frames import Message
    from crdtsync.client.session.read_memory import ReadMemory
    from crdtsync.client.session.request_context import Arguments

READS_MAX = 100_000
"""Keys read from a mirror and not yet taken over into the session's memory of reads."""
CONFIRM_INTERVAL_S = 1.0
PATIENCE_S = 0.02
"""So long what a write has done is waited for before the daemon is asked whether there was anything to tell."""
RETELL_KEYS_MAX = 1000
LOOK_AGAIN_S = 10.0
"""After so long a key that was too large is asked for again when it changes."""

_WATCH_ID = HELLO_ID + 1


class MirrorState(MirrorView):
    """What a mirror shows, over all its connections. One thread feeds it, any may read it."""

    __hash__ = object.__hash__  # it equals a dict with the same content, but is itself no value

    def __init__(
        self,
        space: str,
        memory: ReadMemory,
        prefix: str,
        overrides: Arguments,
        keys_max: int,
        bytes_max: int,
        horizon: Horizon | None = None,
    ) -> None:
        super().__init__({}, None, Reads())
        if keys_max < 1 or bytes_max < 1:
            raise InvalidRequest(f"keys_max and bytes_max must be at least 1, not {keys_max} and {bytes_max}")
        self.prefix = prefix
        """What its keys begin with."""
        self._space = space
        self._standing = Standing(horizon or Horizon(space), space)
        self._memory = memory
        self._overrides = overrides
        self._keys_max = keys_max
        self._bytes_max = bytes_max
        self._publishing = Lock()  # what is shown and its token change together; plain look-ups take no lock
        self._size_bytes = 0
        self._is_resuming = False
        self._start_connection()
        self._confirmed_s: float | None = None
        self._lag: dict[str, int] = {}
        self._vector: tuple[str | None, VersionVector] = (None, {})
        self._error: CrdtSyncError | None = None
        memory.mirrors = (*memory.mirrors, self._reads)
        restart_in_children(self)

    # -- what its users ask ---------------------------------------------------------------------------------

    @property
    def staleness_s(self) -> float:
        """So many seconds ago at most the daemon held nothing that is not shown here; it grows while it is away."""
        return float("inf") if self._confirmed_s is None else monotonic() - self._confirmed_s

    @property
    def daemon_lag(self) -> int | None:
        """How many changes the daemon itself lacked when it last said so, of those that others told it they have.

        What nodes hold that it has no connection to, nobody knows: see :attr:`peers_away`. None: it has not said yet.
        """
        return self._lag.get("lag")

    @property
    def peers_away(self) -> int | None:
        """How many nodes that the daemon knows it was not connected to when it last said so."""
        return self._lag.get("away")

    @property
    def missing(self) -> dict[str, int]:
        """How many changes of which nodes its daemon lacks of what this client has seen. Empty: none.

        Until they are there it shows what it has. If they will never come, see :meth:`Client.forget_token`.
        """
        return {} if self._standing.lacking is None else self._standing.lacking.missing

    @property
    def error(self) -> CrdtSyncError | None:
        """Why it has ended; None: it has not. While its daemon is away it goes on showing what it has."""
        return self._error

    def snapshot(self) -> MirrorView:
        """All keys as they are now, with the token of this moment; it stays as it is."""
        with self._publishing:
            return MirrorView(self._holding.copy(), self._token, self._reads)

    def _copied(self) -> Holding:
        return self._holding.copy()  # at once: nothing else runs in between

    # -- the connection -------------------------------------------------------------------------------------

    def request(self) -> bytes:
        """The frame that starts the watch, or goes on with it, on a new connection.

        What is shown counts as seen by the client. So the daemon need not be asked to hold the point that it stands
        for: once the client has forgotten what it had seen, any state will do.
        """
        self._start_connection()
        arguments: Arguments = {"prefix": self.prefix, "states": True, **self._overrides, **self._standing.need()}
        self._is_resuming = self._token is not None
        if self._token is not None:
            arguments["after"] = self._token
        return encode_request(_WATCH_ID, "watch", arguments)

    def _start_connection(self) -> None:
        self._staged: dict[str, HeldValue | None] = {}
        self._staged_bytes = 0
        self._is_replacing = False
        self._asked: dict[int, float] = {}
        self._last_id = _WATCH_ID
        self._retell: dict[str, None] = {}  # to be asked for
        self._missing: set[str] = set()  # what is told cannot be shown without these

    def confirmation(self) -> bytes:
        """The frame that asks whether all has been told, and how far the daemon is behind."""
        self._last_id += 1
        self._asked[self._last_id] = monotonic()
        arguments: Arguments = {"watch": _WATCH_ID}
        if self._retell:
            arguments["retell"] = asked = list(self._retell)[:RETELL_KEYS_MAX]
            for key in asked:
                del self._retell[key]
        return encode_request(self._last_id, "confirm", arguments)

    @property
    def may_confirm(self) -> bool:
        """Whether the daemon can say how fresh it is: it has begun to tell, and is not asked already."""
        return self._standing.is_taken and not self._asked

    def is_confirmation_due(self, due_s: float) -> bool:
        """Whether to ask now, if it is due at ``due_s`` at the latest."""
        return self.wants_confirmation or (self.may_confirm and monotonic() >= due_s)

    @property
    def wants_confirmation(self) -> bool:
        """Whether to ask at once: something is to be told anew."""
        return bool(self._retell)

    def take(self, message: Message) -> set[str] | None:
        """Take in what the daemon sent. The keys that changed, if something is shown now; None: not yet.

        :raises CrdtSyncError: the daemon refuses or ends the watch, or there is more than may be held.
        """
        request_id, status, content = message
        if status == ERROR:
            if request_id in self._asked:
                raise DaemonUnavailable(f"the daemon cannot say how fresh the mirror is: {content.get('message')}")
            self._refused(from_wire(content))
        if status == RESULT and request_id == _WATCH_ID:
            self._standing.taken()
        changed: set[str] | None = None
        if status == EVENTS:
            for event in content:
                told = self._told(event)
                if told is not None:
                    changed = told if changed is None else changed | told
        elif status == RESULT and request_id in self._asked:
            self._confirmed(self._asked.pop(request_id), content)
        return changed

    def _refused(self, error: CrdtSyncError) -> NoReturn:
        """The daemon lacks what the client has seen, or has the space no longer: ask again. It knows nothing of a token
        (of a space that was dropped, say): start over, once.
        """
        if isinstance(error, Timeout | UnknownSpace):
            self._standing.outlast(error)
            raise DaemonUnavailable(f"the mirror must wait: {error.message}")
        if self._is_resuming and not isinstance(error, DaemonUnavailable):
            with self._publishing:
                self._token = None
            raise DaemonUnavailable(f"the mirror must start over: {error.message}")
        raise error

    def _confirmed(self, asked_s: float, content: Any) -> None:
        self._lag = {name: int(content.get(name) or 0) for name in ("lag", "away")}
        if content["token"] is not None and not self._missing and not self._staged:
            self._confirmed_s = asked_s
            with self._publishing:
                self._token = content["token"]  # what has happened since has not touched these keys

    # -- what is told ---------------------------------------------------------------------------------------

    def _told(self, event: dict[str, Any]) -> set[str] | None:
        name = event["event"]
        if name == "current":
            return None if self._missing else self._publish(event["token"])
        if name == "reset":
            self._staged.clear()
            self._staged_bytes = 0
            self._is_replacing = True
        elif name == "state":
            self._stage(event["key"], held_from_wire(event))
        elif name == "delete":
            self._stage(event["key"], None)
        elif name == "part":
            self._take_part(event["key"], event)
        return None

    def _take_part(self, key: str, event: dict[str, Any]) -> None:
        knows_all = self._is_replacing or self._token is None
        before = self._staged.get(key) if knows_all or key in self._staged else self._holding.get(key)
        held = before.with_part(event) if before is not None else None
        if held is not None:
            self._stage(key, held)
        elif before is None or not before.is_too_large:
            self._retell[key] = None
            self._missing.add(key)
        elif before.age_s > LOOK_AGAIN_S:  # it may have become smaller
            self._retell[key] = None

    def _stage(self, key: str, held: HeldValue | None) -> None:
        before = self._staged.get(key)
        self._staged[key] = held
        self._missing.discard(key)
        self._staged_bytes += (held.size_bytes if held else 0) - (before.size_bytes if before else 0)
        self._check(len(self._staged), self._staged_bytes)

    def _check(self, keys: int, size_bytes: int) -> None:
        if keys > self._keys_max:
            raise TooLarge(f"{self._what} has over {self._keys_max:,} keys: choose a longer prefix, or raise keys_max")
        if size_bytes > self._bytes_max:
            raise TooLarge(
                f"{self._what} takes over {self._bytes_max:,} bytes: choose a longer prefix, or raise bytes_max"
            )

    @property
    def _what(self) -> str:
        return f"the mirror of {self.prefix!r}" if self.prefix else "the mirror of all keys"

    def _publish(self, token: str) -> set[str]:
        """Show what is staged."""
        staged, holding = self._staged, self._holding
        is_all = self._is_replacing or self._token is None
        changed = set(staged) | set(holding) if is_all else set(staged)
        present = {key: held for key, held in staged.items() if held is not None}
        for held in present.values():
            held.point = token
        if is_all:
            shown, count, self._size_bytes = present, len(present), self._staged_bytes
        else:
            before = {key: old for key in staged if (old := holding.get(key)) is not None}
            self._size_bytes += self._staged_bytes - sum(old.size_bytes for old in before.values())
            shown, count = self._changed(holding, staged, present), len(holding) + len(present) - len(before)
        self._check(count, self._size_bytes)
        with self._publishing:
            if shown is holding:
                holding.update(present)  # in one step: no other thread runs in between
            else:
                self._holding = shown
            self._token = token
        self._standing.shown(self, token)
        self._staged = {}
        self._staged_bytes = 0
        self._is_replacing = False
        self._reads.bound(self._memory, READS_MAX)
        return changed

    @staticmethod
    def _changed(holding: Holding, staged: dict[str, HeldValue | None], present: Holding) -> Holding:
        """The dict to show; the same one if it is enough to add to it."""
        if len(present) == len(staged):
            return holding
        shown = holding | present  # keys go: that takes several steps, so it is done in another dict
        for key in staged.keys() - present.keys():
            shown.pop(key, None)
        return shown

    # -- waiting and ending ---------------------------------------------------------------------------------

    def point_of(self, token: str) -> VersionVector:
        """What a token names of this mirror's space.

        :raises InvalidRequest: not a token.
        """
        _, vector = decode_token(token).get(self._space, (0, {}))
        return vector

    def shows(self, wanted: VersionVector) -> bool:
        """Whether all of ``wanted`` is shown."""
        token = self._token
        if token is None:
            return False
        known, vector = self._vector
        if known != token:
            vector = self.point_of(token)
            self._vector = (token, vector)
        return covers(vector, wanted)

    def has_shown(self, wanted: VersionVector) -> bool:
        """Whether there is nothing left to wait for: it shows that, or has ended."""
        return self._error is not None or self.shows(wanted)

    def unseen(self, token: str) -> Timeout:
        """The error for one who waited until it shows ``token``, which the daemon holds, in vain."""
        return self._standing.late(
            f"the mirror of {self.prefix!r} did not show that in time; a write that it waited for is done", token=token
        )

    def unopened(self) -> Timeout:
        """The error for one who waited for the first keys."""
        return self._standing.late(f"the keys under {self.prefix!r} did not come in time")

    def concerns(self, space: object, keys: Iterable[object]) -> bool:
        """Whether it shows a write to one of these keys."""
        return space == self._space and any(isinstance(key, str) and key.startswith(self.prefix) for key in keys)

    def belongs_to(self, memory: ReadMemory) -> bool:
        """Whether what is read here counts as read by the session of that memory."""
        return self._memory is memory

    def end(self, error: CrdtSyncError) -> None:
        """From now on every reader is told ``error``. What was read stays read."""
        if self._error is None:
            self._memory.mirrors = tuple(reads for reads in self._memory.mirrors if reads is not self._reads)
            self._reads.bound(self._memory, 0)
            self._refuse_all(error)

    def after_fork(self) -> None:
        """In a child: what feeds it is the parent's, and locks may be held by nobody."""
        self._publishing = Lock()
        self._refuse_all(
            InvalidRequest(f"the mirror of {self.prefix!r} belongs to the parent process: open another one")
        )

    def _refuse_all(self, error: CrdtSyncError) -> None:
        self._error = error
        self._holding = _Ended(error)


class _Ended(Holding):
    """Stands in for what a mirror showed before it ended."""

    def __init__(self, error: CrdtSyncError) -> None:
        self._error = error

    def _refuse(self, *_: object) -> NoReturn:
        raise self._error.with_traceback(None)

    __getitem__ = __contains__ = __len__ = get = copy = _refuse


def written_keys(arguments: Arguments) -> list[object]:
    """The keys of a write, or of the writes of a batch."""
    parts: Any = arguments.get("ops")
    return [part.get("key") for _, part in parts] if parts is not None else [arguments.get("key")]


def report(prefix: str, error: Exception) -> None:
    """A callback has raised: say so in the program's log."""
    import logging

    logging.getLogger("crdtsync").error("the callback of the mirror of %r failed", prefix, exc_info=error)
