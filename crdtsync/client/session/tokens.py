"""What a session has read and written, as tokens: the part that both clients have alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from crdtsync.client.operations.keys import Operations


class Past:
    """The part of a session that names its causal past."""

    _operations: Operations

    @property
    def last_token(self) -> str | None:
        """The token of this session's newest operation: of a write that write's, of a read that of all that it was
        shown; None if there was none yet.
        """
        return self._operations.last_token

    @property
    def token(self) -> str | None:
        """One token for all that this client has read and written, in all its spaces; None if that is nothing.

        Hand it over with the work: a client that is begun with ``after`` set to it, at any daemon, is never shown
        less.
        """
        return self._operations.horizon.token()

    @staticmethod
    def join(tokens: Iterable[str | None]) -> str:
        """One token for all that several name, None among them names nothing: what three agents have written, for the
        one who reads their findings ``after`` it. Nothing is asked of the daemon.

        :raises InvalidRequest: one of them is no token, or there is none.
        """
        from crdtsync.client.protocol.seen_point import joined
        from crdtsync.errors import InvalidRequest

        token = joined(tokens)
        if token is None:
            raise InvalidRequest("join needs one token at least")
        return token

    def forget_token(self) -> None:
        """Go on without :attr:`token`, in all sessions of this client, at a daemon that lacks some of it and will not
        get it soon: what was read and written may then seem undone until it arrives.

        What was read of each key is still remembered: a write supersedes what of it is there, and the rest lives on
        as a sibling.
        """
        self._operations.horizon.forget()
