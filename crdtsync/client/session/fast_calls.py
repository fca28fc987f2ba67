"""The short way of what is asked most: a ``get``, and a ``set`` without options.

The plans of :mod:`crdtsync.client.operations.keys` are for all that an operation may take: several requests, pauses,
runs of the caller's function. For one request whose arguments need no working out, to go through a plan costs as much
as all else about it (measured: 3 of 6 µs). Here a request is made in one go, and its reply understood in one go; both
clients send it. A test compares what comes of it with what comes of the plans.
"""

from __future__ import annotations

from typing import Any

from crdtsync.client.protocol.in_flight import Pending
from crdtsync.client.session.request_context import Context
from crdtsync.client.values.encoding import decode, encode, plain
from crdtsync.client.values.write_result import Written
from crdtsync.errors import CrdtSyncError


class ShortWays(Context):
    """Requests, and what their replies teach the session: the part of its operations that needs no plan."""

    def begin_get(self, key: str, deadline: float) -> Pending:
        """The request of a plain ``get``."""
        self._token_written = None
        arguments: dict[str, object] = {"key": key}
        if self._overrides:
            arguments.update(self._overrides)
        return Pending("get", arguments, deadline)

    def got(self, key: str, reply: Any, default: Any) -> Any:
        """What a plain ``get`` returns."""
        if reply is None:
            self.memory.read(key, None)
            return default
        self.memory.read(key, reply["version"])
        value = reply["value"]
        return decode(value) if type(value) is bytes else plain(value)

    def begin_set(self, key: str, value: object, deadline: float) -> Pending:
        """The request of a plain ``set``.

        :raises InvalidValue, TooLarge: the value cannot be stored.
        """
        arguments: dict[str, object] = {"key": key, "value": encode(value)}
        remembered = self.memory.seen(key)
        if remembered is not None:
            arguments["seen"] = remembered
        if self._overrides:
            arguments.update(self._overrides)
        self._token_written = None
        return Pending("set", arguments, deadline)

    def did_set(self, key: str, reply: Any) -> Written:
        """What a plain ``set`` returns."""
        token: str = reply["token"]
        self._token_written = token
        self.memory.wrote(key, reply["version"])
        return Written(token, key, reply)

    def learn_refusal(self, pending: Pending, error: CrdtSyncError) -> None:
        """What a refusal hands over counts as read."""
        if pending.number:
            self.learn_mismatch(pending.arguments, error)
        else:
            self.learn_unresolved(str(pending.arguments["key"]), error)
