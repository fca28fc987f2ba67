"""The point that a client has seen and done, as one causal point for each space, and whether the daemon has it too.

The daemon that a client stays at holds all of it. One that it moves to, because its socket answers as another node now
or because it was begun with the token of another client, may lack some: until it has answered once, every request
names what it *needs*, and the daemon waits for that or says what is missing. So a client reads its own writes,
never goes back in time, and writes after what it has read, wherever it is: the session guarantees of Terry et al.
(1994).
"""

from __future__ import annotations

from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

_WATCHES_MAX = 16


class Horizon:
    """The points of one client, in the space ``space`` where a request names no other.

    A point that the daemon tells replaces the point of its space: it holds all that the client had seen there. The
    client adds up only what is not known to be there: changes that a daemon to which the client has moved may lack, and
    those that a watch or mirror has shown while a request was on its way with whose answer the daemon tells the point.

    Any thread may add to it, or ask.
    """

    def __init__(
        self, space: str = "default", after: str | None = None, clock: Callable[[], float] = monotonic
    ) -> None:
        self.space = space
        self._clock = clock
        self._points: dict[str, str] = {}
        self.unconfirmed: dict[str, str] = {}
        """The parts of it that the daemon may lack, by space: requests have to say that they need them."""
        self._watched: dict[tuple[str, int], str] = {}
        self.asked = 0
        """The number of the newest request."""
        self._folded: dict[str, int] = {}  # by space, what that was when something was added that was watched
        self._lock = Lock()
        if after:
            self.add(after)

    def restart(self) -> None:
        """In a forked child: whoever held the lock is not here."""
        self._lock = Lock()

    def token(self) -> str | None:
        """One token for all of it, over all spaces; None: nothing."""
        with self._lock:
            self._fold()
            points = list(self._points.values())
        return points[0] if len(points) == 1 else joined(points)

    def point(self, space: str | None) -> str | None:
        """The token of what was seen of one space; None: nothing."""
        with self._lock:
            self._fold()
            return self._points.get(space or self.space)

    def add(self, token: str) -> None:
        """Something was seen, or is to be, that the daemon may not hold.

        :raises InvalidRequest: not a token.
        """
        from crdtsync.wire.tokens import decode_token, encode_token

        with self._lock:
            for space, (epoch, vector) in decode_token(token).items():
                seen = self._with(space, encode_token([(space, epoch, vector)]))
                self._points[space] = self.unconfirmed[space] = seen

    def told(self, space: str, token: str, request: int | None = None) -> None:
        """The daemon has told how far it is in ``space`` when it answered that request, the newest if not given."""
        with self._lock:
            is_all = space not in self.unconfirmed and (request is None or request > self._folded.get(space, 0))
            self._points[space] = token if is_all else self._with(space, token)

    def moved(self) -> None:
        """Another connection: whether who answers there holds all this is not known."""
        with self._lock:
            self._fold()
            self.unconfirmed = dict(self._points)

    def forget(self) -> None:
        """From here on nothing was seen."""
        with self._lock:
            self._points, self.unconfirmed, self._watched = {}, {}, {}

    def need(self, space: object, after: str | None) -> str | None:
        """The need of a watch that goes on after that token, or with a snapshot: all that was seen of the space."""
        name = space if isinstance(space, str) else self.space
        point = self.point(name)
        return point if after is None else _known([point, after]) or after

    def watched(self, space: object, watch: int, token: str) -> None:
        """The watch of that number has handed out all up to ``token``. Looked at when somebody asks."""
        with self._lock:
            self._watched[space if isinstance(space, str) else self.space, watch] = token
            if len(self._watched) >= _WATCHES_MAX:
                self._fold()

    def _fold(self) -> None:
        for (space, _), token in self._watched.items():
            self._points[space] = self._with(space, token)
            self._folded[space] = self.asked
        self._watched.clear()

    def prepare(self, operation: str, arguments: dict[str, Any], deadline: float) -> bool:
        """Have a request say what it needs, as long as that is not known to be there. Whether it does: then the daemon
        gives up at the deadline, and its error knows what is missing.
        """
        if not self.unconfirmed:
            return False
        from crdtsync.wire.requests import WITHOUT_NEED

        need = self.unconfirmed.get(arguments.get("space") or self.space)
        if need is None or operation in WITHOUT_NEED:
            arguments.pop("need", None)
            return False
        arguments["need"] = need
        left_s = deadline - self._clock()
        if left_s != float("inf"):
            timeout_ms = int(1000 * max(left_s, 0.001))
            arguments["timeout"] = min(timeout_ms, arguments.get("timeout", timeout_ms))
        return True

    def done(self, operation: str, arguments: dict[str, Any], result: object, request: int | None = None) -> None:
        """A request succeeded: what it needed is there, and a write is part of what was done."""
        if self.unconfirmed:
            space, need = arguments.get("space") or self.space, arguments.get("need")
            if need is not None and self.unconfirmed.get(space) == need:
                del self.unconfirmed[space]
        if "n" in arguments:
            token = result.get("token") if isinstance(result, dict) else None
            if not isinstance(token, str):
                return
            space = arguments.get("space") or self.space
            if "w" in arguments:  # answered after others that tell more, maybe
                self._add(space, token)
            else:
                self.told(space, token, request)
        elif operation == "wait":
            self._waited(str(arguments.get("token")))

    def failed(self, arguments: dict[str, Any], error: dict[str, Any]) -> None:
        """A request failed; of a write whose write concern was not met the error has the token, of one that was refused
        for what it found, and of a read, that of what is handed over.
        """
        token = error.get("token") if "n" in arguments or "current" in error else None
        if isinstance(token, str):
            self._add(arguments.get("space") or self.space, token)

    def _waited(self, token: str) -> None:
        from crdtsync.wire.tokens import decode_token, encode_token

        for space, (epoch, vector) in decode_token(token).items():
            self._add(space, encode_token([(space, epoch, vector)]))

    def _add(self, space: str, token: str) -> None:
        with self._lock:
            self._points[space] = self._with(space, token)

    def _with(self, space: str, token: str) -> str:
        """``token`` on top of what is known of the space."""
        return _known([self._points.get(space), token]) or token


def _known(tokens: Sequence[str | None]) -> str | None:
    """One token for what several name; None if one of them is no token that this version knows."""
    from crdtsync.errors import InvalidRequest

    try:
        return joined(tokens)
    except InvalidRequest:
        return None


def joined(tokens: Iterable[str | None]) -> str | None:
    """One token for what several name; of a space that was dropped in between, the later epoch's. None: nothing."""
    from crdtsync.causality import VersionVector, merge
    from crdtsync.wire.tokens import decode_token, encode_token

    points: dict[str, tuple[int, VersionVector]] = {}
    for token in tokens:
        for space, (epoch, vector) in decode_token(token).items() if token else ():
            known = points.get(space)
            if known is None or epoch > known[0]:
                points[space] = (epoch, dict(vector))
            elif epoch == known[0]:
                merge(known[1], vector)
    return encode_token([(space, *points[space]) for space in sorted(points)]) if points else None
