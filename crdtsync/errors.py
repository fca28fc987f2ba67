"""Every error that users of crdtsync can meet: one root, split by whose turn it is to act.

An error that crosses the agent socket is a *code* and a *message*; :func:`from_wire` turns it back into
the exception on the client's side. The table in ``docs/reference/errors.md`` is made from :data:`ERRORS_BY_CODE`: the
docstring of each class says what has happened and what to do, in Markdown.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar


class CrdtSyncError(Exception):
    """Root of all errors. On its own it is a fault of the daemon: report it with the daemon's log."""

    code: ClassVar[str] = "internal"
    """Its name on the wire."""
    exit_status: ClassVar[int] = 4
    """What the command line returns."""

    def __init__(self, message: str, **details: object) -> None:
        super().__init__(message)
        self.message = message
        self.details = details

    @property
    def token(self) -> str | None:
        """The token of a write that is done although its wait ended; or, if ``current`` is there, the point at which
        the key holds that; else None.
        """
        token = self.details.get("token")
        return token if isinstance(token, str) else None


# -- configuration: the person who set this machine up ---------------------------------------------------


class ConfigError(CrdtSyncError):
    """The daemon cannot start as it was told to.

    Correct the setting that the message names; ``crdtsyncd --check-config`` tries it.
    """

    code = "config"
    exit_status = 2


# -- the local side: no daemon, or no answer ----------------------------------------------------------------


class DaemonUnavailable(CrdtSyncError, ConnectionError):
    """No daemon answers on the socket, or this user may not open it.

    Start ``crdtsyncd`` (``Client(wait=30)`` waits for it so long), or name its socket with ``--socket`` or
    ``CRDTSYNC_SOCKET``. If the message names a group, have your user [added](../how-to/run.md#install).
    """

    code = "unavailable"
    exit_status = 3


class OutcomeUnknown(DaemonUnavailable):
    """The connection broke during a write, which may or may not be done.

    It cannot be sent again safely: either another database answers now, or the client has sent over 1,024 writes since.
    Read the key, then decide whether to write again.
    """

    code = "outcome_unknown"


class Timeout(CrdtSyncError, TimeoutError):
    """The wait ended first.

    With ``token``, the write is done on this host and on those in ``held_by``: do not repeat it,
    [``wait`` for the token](../how-to/hand-over.md#make-sure-that-others-have-it). With ``missing``, nothing was done,
    for [this host is behind](../how-to/hand-over.md#a-host-that-is-behind): try again. With neither, try again.
    """

    code = "timeout"
    exit_status = 5
    written: Any = None
    """From a client: what the write that is done would have returned, such as a :class:`~crdtsync.Written`."""

    @property
    def held_by(self) -> list[str]:
        """Names of the nodes known to hold it durably when time ran out."""
        held_by = self.details.get("held_by")
        return [str(name) for name in held_by] if isinstance(held_by, list) else []

    @property
    def missing(self) -> dict[str, int]:
        """How many changes of which nodes this node lacked, if that is what was waited for."""
        missing = self.details.get("missing")
        return {str(node): int(count) for node, count in missing.items()} if isinstance(missing, dict) else {}


class Unresolved(CrdtSyncError):
    """The key has siblings, and its read policy wants a person or an agent to choose.

    ``current`` holds the values: [settle the conflict](../how-to/model-data.md#see-and-settle-conflicts).
    """

    code = "unresolved"
    exit_status = 6

    @property
    def current(self) -> Any:
        """The value that the key holds: from a client an ``Entry`` with all other values in ``siblings``; None if that
        is too much for one reply.
        """
        return self.details.get("current")


# -- the request: whoever made it ------------------------------------------------------------------------


class Refused(CrdtSyncError):
    """The daemon understood the request and will not do it; the message says why. Nothing was changed."""

    code = "refused"

    def __init__(self, message: str, code: str | None = None, **details: object) -> None:
        super().__init__(message, **details)
        if code is not None:
            self.code = code  # type: ignore[misc]  # an instance may carry a code that has no class of its own

    @property
    def index(self) -> int | None:
        """If a batch was refused: which of its operations, counted from 0."""
        index = self.details.get("index")
        return index if isinstance(index, int) else None


class InvalidRequest(Refused):
    """The request is malformed. Correct the operation, key, token or argument that the message names."""

    code = "invalid_request"


class KindMismatch(Refused):
    """The key holds another kind of value than this operation works on.

    Use another operation or key, or delete the key first.
    """

    code = "kind_mismatch"


class VersionMismatch(Refused):
    """Somebody else wrote first: a condition on the key was false.

    ``current`` is what the key holds now; decide anew.
    """

    code = "version_mismatch"
    exit_status = 1

    @property
    def current(self) -> Any:
        """The value that the key holds: from a client an ``Entry``, or None if it is absent."""
        return self.details.get("current")


class ClaimHeld(Refused):
    """``agent`` on ``node`` has claimed the key: wait for it, or take something else."""

    code = "claim_held"
    exit_status = 1

    @property
    def agent(self) -> str | None:
        """The agent that holds it."""
        return _text(self.details.get("agent"))

    @property
    def node(self) -> str | None:
        """On which host."""
        return _text(self.details.get("node"))


class ClaimLost(Refused):
    """The claim that this was done under is not held any more.

    Stop: another host's [claim](../how-to/work-together.md#what-a-claim-promises) counts, or this one was not renewed
    in time.
    """

    code = "claim_lost"
    exit_status = 1


class SchemaMismatch(Refused):
    """A write breaks the ``rule`` of the key's [schema](../how-to/model-data.md#what-may-be-written).

    Correct the value at ``path``.
    """

    code = "schema_mismatch"
    exit_status = 1

    @property
    def rule(self) -> str | None:
        """Which rule: ``kind``, ``writers``, ``version``, or a keyword of the JSON Schema, such as ``maxLength``."""
        return _text(self.details.get("rule"))

    @property
    def path(self) -> str:
        """Where in the value: ``$.steps[3].when``; ``$`` is the whole."""
        return str(self.details.get("path", "$"))

    @property
    def pattern(self) -> str | None:
        """The schema's pattern."""
        return _text(self.details.get("pattern"))


class RanksLower(Refused):
    """A later write would rank lower than what readers are shown, and the key's schema refuses that.

    ``current``, which the key holds, ranks higher by its [read policy](../how-to/model-data.md#which-read-policy):
    leave it, or resolve or delete the key.
    """

    code = "ranks_lower"
    exit_status = 1

    @property
    def current(self) -> Any:
        """The value that the key holds: from a client an ``Entry``."""
        return self.details.get("current")


class InvalidValue(Refused, ValueError):
    """The value holds something that cannot be stored exactly. Change the part at ``path``.

    Values hold null, booleans, 64-bit integers, finite floats, strings, bytes, lists, and maps with string keys.
    """

    code = "invalid_value"

    @property
    def path(self) -> str:
        """Path of the offending part inside the value, such as ``$.steps[3].when``."""
        return str(self.details.get("path", "$"))


class TooLarge(Refused):
    """A key, value, batch or change is over its [limit](bounds.md#what-goes-over-sockets): split it.

    Edits that make a text no longer are always taken. If ``get`` or its like raises this, the answer does not fit into
    one reply (8 MiB), and the message says what to do.
    """

    code = "too_large"


class TooManySiblings(Refused):
    """The key has as many siblings as a key may have, and its policy ``all`` or ``manual`` ranks none lowest.

    Replace them by ``resolve`` with a value, or read all with ``entry``, then write.
    """

    code = "too_many_siblings"


class StaleRead(Refused):
    """Positions refer to a text as it was read, and that reading is no longer remembered.

    Read the text again and work out the positions anew.
    """

    code = "stale_read"


class NotAllowed(Refused):
    """This agent may not do that here.

    The message says which right is missing, and the command that grants it: see [rights](../how-to/rights.md).
    """

    code = "not_allowed"

    @property
    def who(self) -> str | None:
        """The refused agent, as rules name it: ``agent:NAME`` or ``uid:NUMBER``."""
        return _text(self.details.get("who"))

    @property
    def right(self) -> str | None:
        """The right that is missing."""
        return _text(self.details.get("right"))

    @property
    def space(self) -> str | None:
        """The space in which it is missing."""
        return _text(self.details.get("space"))


class NoSpace(Refused):
    """The disk is too full to take writes.

    Free disk space where the daemon keeps its data: a ``purge`` may go through. Reads go on meanwhile, but for one that
    meets a refused commit: ask again.
    """

    code = "no_space"


class QuotaExceeded(Refused):
    """This agent has used up one of its quotas, or this node or cluster has no room for more of something.

    Stay within the [quota](../how-to/rights.md#quotas) that the message names, or have it raised. In ``retry_ms``
    milliseconds there is room again; None where waiting does not help.
    """

    code = "quota_exceeded"

    @property
    def retry_ms(self) -> int | None:
        """In how many milliseconds there is room again, if that comes by waiting."""
        return _count(self.details.get("retry_ms"))

    @property
    def quota(self) -> str | None:
        """Which quota of the agent it is, as ``access_quota`` calls it; None: none of the agent's own."""
        return _text(self.details.get("quota"))

    @property
    def limit(self) -> int | None:
        """How much that quota is."""
        return _count(self.details.get("limit"))


class TooOld(Refused):
    """The history before the point asked for is no longer kept. Ask for a later point."""

    code = "too_old"


class UnknownSpace(Refused):
    """No space of that name exists on this node.

    Check the name and your [rights](../how-to/rights.md), ask a node that holds the space, which the message names, or
    make it: ``crdtsync space create NAME``.
    """

    code = "unknown_space"


# -- peers and storage: the other daemon, or this machine ------------------------------------------------


class PeerError(CrdtSyncError):
    """A peer said something that no correct peer says; its connection is closed with this reason.

    It shows in the daemon's log and in ``crdtsync peers``: the other daemon is faulty or of a version that does not
    fit.
    """

    code = "peer"


class ForkDetected(PeerError):
    """Two different changes carry one number: a writer went on after its disk had gone back.

    The daemons heal it. If they cannot, see the alarm [``fork``](alarms.md#fork).
    """

    code = "fork"


class StorageError(CrdtSyncError):
    """The daemon does not go on with a database that it cannot trust.

    Do what the message says about the file that it names.
    """

    code = "storage"


class DamagedValue(CrdtSyncError):
    """The disk of this host has spoilt the value of a key. Other keys are served.

    Other nodes are asked for the value: try again, or see the alarm [``value_damaged``](alarms.md#value_damaged).
    """

    code = "damaged_value"


class InvalidEncoding(CrdtSyncError, ValueError):
    """Bytes that do not decode: truncated, over a limit, or not of the expected shape.

    Bring client and daemon to versions that fit, or report it.
    """

    code = "invalid_encoding"


def _text(found: object) -> str | None:
    return found if isinstance(found, str) else None


def _count(found: object) -> int | None:
    return found if type(found) is int else None


def _with_codes(root: type[CrdtSyncError]) -> dict[str, type[CrdtSyncError]]:
    found = {root.code: root}
    for child in root.__subclasses__():
        found |= _with_codes(child)
    return found


ERRORS_BY_CODE: Mapping[str, type[CrdtSyncError]] = _with_codes(CrdtSyncError)


def to_wire(error: CrdtSyncError) -> dict[str, object]:
    """The error as the map that travels to an agent: ``code``, ``message`` and its details."""
    return {**error.details, "code": error.code, "message": error.message}


def from_wire(fields: Mapping[str, object]) -> CrdtSyncError:
    """The exception for an error map; a code from a newer daemon becomes :class:`Refused` with that code."""
    details = {name: value for name, value in fields.items() if name not in ("code", "message")}
    code = str(fields.get("code", "internal"))
    message = str(fields.get("message", "the daemon gave no reason"))
    error_type = ERRORS_BY_CODE.get(code)
    if error_type is None:
        return Refused(message, code, **details)
    return error_type(message, **details)
