"""An attached agent: whose process it is, and what it may do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crdtsync.core.access.requirements import Right
from crdtsync.named_tuple import NamedTuple

if TYPE_CHECKING:
    from crdtsync.core.access.quotas import Account
    from crdtsync.core.access.rules import Grant


class User(NamedTuple):
    """Whose process an agent is, as the kernel says."""

    uid: int
    gids: tuple[int, ...] = ()
    is_local: bool = True


class Agent:
    """One attached connection. ``told``: per space, the causal point that it was told last; None: it asked for none.

    ``key_name``: the name that it has proven by a key, or empty; ``is_local``: its user owns the socket or is in the
    socket's group; ``identities``: under what names rules may speak of it; ``everywhere``: the least right that it has
    on every key there is; ``account``: what its quotas are counted in, None: it has none.
    """

    __slots__ = (
        "account", "client", "conn", "everywhere", "gids", "grants", "identities", "is_local", "key_hash", "key_name",
        "name", "pid", "since_ms", "space", "told", "uid",
    )  # fmt: skip

    def __init__(self, conn: int, user: User, pid: int, since_ms: int) -> None:
        self.conn = conn
        self.uid, self.gids, self.is_local = user
        self.pid = pid
        self.since_ms = since_ms
        self.key_name = ""
        self.key_hash = b""
        self.identities: tuple[str, ...] = ()
        self.everywhere = Right.NONE
        self.grants: dict[str, Grant] = {}
        self.account: Account | None = None
        self.client = b""
        self.name = ""
        self.space = "default"
        self.told: dict[str, str] | None = None

    @property
    def who(self) -> str:
        """Its identity, as rules name it."""
        return self.identities[0] if self.identities else f"uid:{self.uid}"
