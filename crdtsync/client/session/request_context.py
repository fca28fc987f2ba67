"""The knowledge of a session and how its requests carry it: the reads of each key, its agent and space, its newest
token.
"""

from __future__ import annotations

from functools import partial
from types import EllipsisType
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from crdtsync.client.protocol.seen_point import Horizon
from crdtsync.client.protocol.steps import Exchange
from crdtsync.client.session.causes import with_causes
from crdtsync.client.session.read_memory import NOTHING_STORED, READ_LONG_AGO, ReadMemory
from crdtsync.client.session.unanswered import Place, Unanswered, numbers_of
from crdtsync.client.values.durations import Seconds, milliseconds, seconds
from crdtsync.client.values.encoding import encode
from crdtsync.errors import (
    CrdtSyncError,
    InvalidRequest,
    OutcomeUnknown,
    RanksLower,
    StaleRead,
    Timeout,
    Unresolved,
    VersionMismatch,
)
from crdtsync.named_tuple import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from crdtsync.client.values.results import Entry

T = TypeVar("T")

Arguments = dict[str, object]
WriteConcern = int | str | None
"""On how many nodes a write must be on disk before it returns: a number, ``"majority"``,
``"all"`` (of the members) or ``"reached"`` (all that can be reached at the moment)."""
Seen = str | EllipsisType | None
"""The version that a write's author had seen: ``...`` what this session remembers, a version, ``"?"`` nothing (the
write supersedes nothing), or None to write blind.
"""


class Context:
    """Shared by all plans of one session.

    Reads are remembered when their reply is handed over, writes when they are done.
    """

    def __init__(self, overrides: Arguments | None = None, horizon: Horizon | None = None) -> None:
        self.memory = ReadMemory()
        self.horizon = horizon or Horizon()
        self.token_written: str | None = None  # by the newest operation, if that was a write
        self._told: str | None = None  # the version in the reply before, in a batch
        self._unanswered = Unanswered()
        self._overrides = dict(overrides or {})  # `agent` and `space`, where they differ from the connection's hello
        self._schema_version = self._overrides.pop("schema_version", None)  # of writes alone

    @property
    def last_token(self) -> str | None:
        """The token of the newest operation: of a write that write's, of a read that of all that it was shown."""
        if self.token_written is not None:
            return self.token_written
        return self.point

    @property
    def point(self) -> str | None:
        """The token of all that is known to have been seen in this session's space."""
        space = self._overrides.get("space")
        return self.horizon.point(space if isinstance(space, str) else None)

    # -- requests ---------------------------------------------------------------------------------------------

    def call(
        self, operation: str, arguments: Arguments, learn: Callable[[Any], T] | None = None, *, waits: bool = False
    ) -> Exchange[T]:
        """A request under this session's agent and space."""
        if self._overrides:
            arguments.update(self._overrides)
        return Exchange(self, operation, arguments, learn, waits=waits)

    def read_call(
        self,
        operation: str,
        arguments: Arguments,
        after: str | None,
        timeout_s: float,
        learn: Callable[[Any], T] | None = None,
    ) -> Exchange[T]:
        """A read, which waits until the daemon holds ``after``."""
        self.token_written = None
        if after is not None:
            arguments["after"] = after
            arguments["timeout"] = milliseconds(timeout_s)
        if self._overrides:
            arguments.update(self._overrides)
        return Exchange(self, operation, arguments, learn, waits=after is not None)

    def send(self, write: Write[T], w: WriteConcern, timeout_s: float) -> Write[T]:
        """The same write, as a request of its own."""
        self.token_written = None
        if "at" in self._overrides:
            raise InvalidRequest("this session reads the past: write in another one")
        arguments = write.arguments
        if w is not None and (w != 1 or type(w) is not int):  # True equals 1: the daemon refuses it
            arguments["w"] = w
            write.waits = True
        if write.waits:
            arguments["timeout"] = milliseconds(timeout_s)
        if not write.places and "key" in arguments:
            write.places = ((str(arguments["key"]), 0),)
        if self._schema_version is not None:
            arguments["schema_version"] = self._schema_version
        earlier = self._unanswered.add(write, write.places)
        if earlier is not None:
            write.follows = partial(numbers_of, earlier)
        if self._overrides:
            arguments.update(self._overrides)
        return write

    # -- what a write had seen --------------------------------------------------------------------------------

    def add_context(
        self, arguments: Arguments, key: str, if_version: str | None, if_absent: bool, seen: Seen
    ) -> tuple[bool, bool]:
        """Add a set's conditions and ``seen``; whether its author shows knowledge of the key, and whether the daemon
        may wait for it.

        A condition is itself a statement of what was seen, so it stands in for what the session remembers.
        """
        _check_seen(seen)
        informed = if_version is not None or if_absent
        if informed:
            add_conditions(arguments, if_version, if_absent)
        if isinstance(seen, str):
            arguments["seen"] = seen
            if not informed:
                arguments["strict"] = True
            return True, True
        remembered = None
        if seen is not None:
            remembered = if_version if informed else self.memory.seen(key)
        if remembered is not None:
            arguments["seen"] = remembered
        return informed, if_version is not None

    def add_removal_context(self, arguments: Arguments, key: str, seen: Seen) -> bool:
        """Add ``seen`` to a write that only makes sense on what was read; whether the daemon may wait for it.

        :raises StaleRead: the session read the key, and no longer remembers at which version.
        """
        _check_seen(seen)
        if isinstance(seen, str):
            arguments["seen"] = seen
            arguments["strict"] = True
            return True
        if seen is ...:
            if self.memory.is_forgotten(key):
                raise StaleRead(
                    f"the reading of {key!r} is no longer remembered: read it again, or pass seen=None to go by what "
                    "it holds now"
                )
            remembered = self.memory.seen(key)
            if remembered is not None:
                arguments["seen"] = remembered
        return False

    def growth_arguments(self, key: str, arguments: Arguments) -> Arguments:
        """A write that adds to what a key holds names what was read before, to be told the version that includes the
        new part.
        """
        arguments = {"key": key, **arguments}
        remembered = self.memory.seen(key)
        if remembered == READ_LONG_AGO:
            remembered = None if self.memory.is_forgotten(key) else NOTHING_STORED
        if remembered is not None:
            arguments["seen"] = remembered
        return arguments

    def learn_write(self, write: Write[T], reply: Any) -> T:
        """A write was done. If a later write's reply came before for a key, that counts."""
        token: str = reply["token"]
        self.token_written = token
        kept = [(key, self.memory.newest(key)) for key in self._unanswered.settle(write, write.places)]
        result = write.learn(reply, token, False)
        for key, version in kept:
            self.memory.put_back(key, version)
        return result

    def learn_failure(self, write: Write[Any], error: CrdtSyncError) -> None:
        """A write was refused, or nobody knows whether it was done: then the next one follows it."""
        written = error.details.pop("written", None)
        if written is not None:  # on this host, and too few others have said that they hold it
            result = self.learn_write(write, written)
            if isinstance(error, Timeout):
                error.written = result
        elif not isinstance(error, Timeout | OutcomeUnknown):
            self._unanswered.settle(write, write.places)

    # -- what replies tell ------------------------------------------------------------------------------------

    def learn_entry(self, key: str, fields: Any) -> Entry | None:
        """``fields`` of an entry were handed over whole: its siblings count as read too."""
        from crdtsync.client.values.results import entry_from_wire

        if fields is None:
            self.memory.read(key, None)
            return None
        entry = entry_from_wire(key, fields)
        self.memory.read(key, entry.version)
        return entry

    def learn_refusal(self, arguments: Arguments, refusal: CrdtSyncError) -> None:
        """A read was refused for its read policy, or a write for what it found: what that hands over counts as read."""
        if isinstance(refusal, Unresolved) and refusal.current is not None:
            refusal.details["current"] = self.learn_entry(str(arguments["key"]), refusal.current)
        elif isinstance(refusal, VersionMismatch | RanksLower):
            current = refusal.current
            key = current["key"] if isinstance(current, dict) else refusal.details.get("key", arguments.get("key"))
            if isinstance(key, str):
                refusal.details["current"] = self.learn_entry(key, current)

    def learn_growth(self, key: str, reply: Any, *, is_batched: bool = False, as_read: bool = False) -> None:
        """A write changed a part of what a key holds: its version covers what had been read, and the new part.

        In a batch it covers what the batch wrote to the key, and all of its writes tell the same. ``as_read``: what had
        been read was stated by the write.
        """
        version = reply.get("version")
        if version is None:
            self.memory.forget(key)
        elif is_batched and not as_read:
            if version != self._told:
                self.memory.saw(key, version)
                self._told = version
        else:
            self.memory.wrote(key, version, as_read=as_read)


class Write(Exchange[T]):
    """One write: sent alone, or in a batch.

    ``learn`` makes of its reply, its token and whether it was part of a batch what the caller gets; the session
    remembers what it told. ``waits``: the daemon may wait before it does it.
    """

    __slots__ = ("places",)

    is_write: ClassVar[bool] = True
    author: Context
    learn: Callable[[Any, str, bool], T]

    def __init__(
        self,
        author: Context,
        operation: str,
        arguments: Arguments,
        learn: Callable[[Any, str, bool], T],
        *,
        waits: bool = False,
    ) -> None:
        super().__init__(author, operation, arguments, learn, waits=waits)
        self.places: tuple[Place, ...] = ()

    def outcome(self) -> T:
        """Also: the session remembers a write that was done, or may have been."""
        if self.error is not None:
            self.author.learn_failure(self, self.error)
        return super().outcome()

    def understand(self) -> T:
        """Also: the session's newest operation was this write."""
        return self.author.learn_write(self, self.result)


class AdditiveWrite(Write[T]):
    """A write that adds a part to what is there: its ``seen`` only asks for the version that has the new part too."""

    __slots__ = ()


class Condition(NamedTuple):
    """The state that a write wants to find: its key at a version, or no key."""

    if_version: str | None = None
    if_absent: bool = False


ALWAYS = Condition()


def add_conditions(arguments: Arguments, if_version: str | None, if_absent: bool) -> bool:
    """Add what a write wants to find; whether the daemon may wait for it."""
    if if_version is not None:
        arguments["if_version"] = if_version
    if if_absent:
        arguments["if_absent"] = True
    return if_version is not None


def _check_seen(seen: Seen) -> None:
    if not (seen is None or seen is ... or isinstance(seen, str)):
        raise InvalidRequest(
            'seen must be a version, "?" (nothing, so that what is there lives on) or None (write blind)'
        )


def seen_or(seen: Seen, if_version: str | None) -> Seen:
    """A condition is itself a statement of what was seen, so it stands in for what the session remembers."""
    return if_version if seen is ... and if_version is not None else seen


def add_options(
    arguments: Arguments, ttl: Seconds | None, confidence: float | None, meta: dict[str, Any] | None
) -> None:
    """Add the options of a set that were given."""
    if ttl is not None:
        arguments["ttl"] = milliseconds(seconds(ttl, "ttl"))
    if confidence is not None:
        arguments["confidence"] = confidence
    meta = with_causes(meta)
    if meta is not None:
        arguments["meta"] = encode(meta)
