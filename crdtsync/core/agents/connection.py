"""An attached agent, what its desk needs of the node, and the forms that answers take on their way out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from crdtsync.core.access.requirements import Right

if TYPE_CHECKING:
    from crdtsync.core.access.authorizer import Guard
    from crdtsync.core.access.quotas import Account
    from crdtsync.core.access.requests import AccessDesk
    from crdtsync.core.access.rules import Grant
    from crdtsync.core.agents.cluster_requests import ClusterDesk
    from crdtsync.core.alarms import Alarms
    from crdtsync.core.cluster.admission import Admission
    from crdtsync.core.cluster.records import Cluster
    from crdtsync.core.cluster.spaces import Spaces
    from crdtsync.core.identity import Identity
    from crdtsync.core.kinds.arguments import Arguments
    from crdtsync.core.replica.replica import Applied, Replica
    from crdtsync.core.resolvers.registry import Registry
    from crdtsync.core.storage.interface import OutcomeRow, Storage
    from crdtsync.core.sync.protocol import Sync


class Reply(NamedTuple):
    """A frame for an agent. ``request`` is None for events. ``stands``: also if the commit under way fails."""

    conn: int
    request: int | None
    data: bytes
    stands: bool = False


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
        """Who it is, as rules name it."""
        return self.identities[0] if self.identities else f"uid:{self.uid}"


class Host(Protocol):
    """What the agents' desk needs of its node."""

    replicas: dict[str, Replica]
    spaces: Spaces
    sync: Sync
    identity: Identity
    fleet: Admission
    cluster: Cluster
    cluster_desk: ClusterDesk
    guard: Guard
    access_desk: AccessDesk
    resolvers: Registry
    alarms: Alarms
    storage: Storage
    now_ms: int
    now_s: float
    read_only: str

    def applied(self, replica: Replica, changes: list[Applied]) -> None:
        """Changes have been applied in memory, of which anything may follow."""

    def applied_plainly(self, replica: Replica, changes: list[Applied]) -> None:
        """Changes have been applied in memory, of which nothing follows but news; see :mod:`crdtsync.core.agenda`."""

    def outcome(self, row: OutcomeRow) -> None:
        """Store a write's reply with the commit."""

    def status(self, agent: Agent, reserved: bool = False) -> dict[str, Any]:
        """The status object, as far as an agent may see it; ``reserved``: with the cluster's own space."""

    def serve(self, name: str, agent: Agent, args: Arguments) -> object:
        """Carry out an operation that concerns the process and not its state; see
        :mod:`crdtsync.core.agents.host_requests`.
        """


class Shown:
    """The result of a read, and what it was read from."""

    __slots__ = ("replica", "result")

    def __init__(self, replica: Replica, result: object) -> None:
        self.replica = replica
        self.result = result
