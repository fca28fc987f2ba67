"""Write concerns: on how many nodes something must be on disk before its request is answered, and who has it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from crdtsync.causality import VersionVector, covers, merge
from crdtsync.core.cluster.node_names import names
from crdtsync.core.peers.peer_state import Dial, Peer
from crdtsync.core.waiting.missing_changes import connected, lacking, told
from crdtsync.errors import InvalidRequest, Timeout

if TYPE_CHECKING:
    from crdtsync.core.cluster.spaces import Holders
    from crdtsync.core.replica.replica import Replica


REACHED = "reached"
"""The write concern of all nodes that can be reached at the moment. When it is met, this node also holds what those
nodes held when they said so: whoever has asked so has heard of all that was written there before.
"""


class Concern:
    """``w`` nodes are to have ``needed`` on disk, this one (called ``name``) among them.

    Asks anew each time who is a member, and who is reached: that may change while a request waits.
    """

    def __init__(
        self,
        members: Holders,
        name: str,
        replicas: Mapping[str, Replica],
        needed: Mapping[str, VersionVector],
        w: object,
        is_reached: Callable[[str], bool] = lambda _node: True,
    ) -> None:
        self._is_reached = is_reached
        self._members = members
        self._name = name
        self._replicas = replicas
        self._needed = needed
        self._w = w

    @property
    def is_here(self) -> bool:
        """Whether this node has it."""
        return all(
            space in self._replicas and covers(self._replicas[space].vector, vector)
            for space, vector in self._needed.items()
        )

    @property
    def wanted(self) -> int:
        """How many nodes are to have it."""
        if self._w == REACHED:
            return 1 + len(self._reached())
        return nodes_wanted(self._w, self._members.counted()[0])

    def holders(self) -> list[str]:
        """The names of the nodes that have it on disk, this one first; others as they have said."""
        names = [peer.name for peer in self._members.counted()[1]() if self._is_at(peer)]
        return [self._name, *names] if self.is_here else names

    def is_met(self, holders: list[str]) -> bool:
        """Whether these are enough."""
        if self._w == REACHED:
            return self.is_here and all(map(self._is_at, self._reached()))
        return self.is_here and len(holders) >= self.wanted

    def unmet(self, token: str, written: Mapping[str, object] | None = None) -> Timeout:
        """The error that says how far it has got: who has it, who has not, and what this node lacks; of a write, which
        is done here, also what its reply would have told.
        """
        count, others = self._members.counted()
        met = others()
        held = self.holders()
        details: dict[str, object] = {"token": token, "held_by": held}
        if written is not None:
            details["written"] = written
        said = []
        if not is_alone(self._w):
            said.append(f"{len(held)} of the {self.wanted} nodes wanted hold it so far: {names(held) or 'none known'}")
        if not self.is_here:
            here = ((self._replicas[name], vector) for name, vector in self._needed.items() if name in self._replicas)
            details["missing"] = lacks = lacking(here)
            said.append(f"{self._name} lacks {told(lacks)}, and is connected to {connected(met)}")
        if not is_alone(self._w):
            without = [peer.name for peer in met if peer.link is not None and not self._is_at(peer)]
            unknown = [f"{peer.name} (not connected)" for peer in met if peer.link is None and not self._is_at(peer)]
            if count - 1 > len(met):
                unknown.append(f"{count - 1 - len(met)} never met")
            said += [f"without it: {names(without)}"] if without else []
            said += [f"not known of: {names(unknown)}"] if unknown else []
        return Timeout("; ".join(said), **details)

    def held_there(self) -> dict[str, VersionVector]:
        """The changes of its spaces that the nodes hold by their own word, for those that were asked for as
        ``reached``.
        """
        held: dict[str, VersionVector] = {}
        for peer in self._reached() if self._w == REACHED else ():
            for space in self._needed:
                merge(held.setdefault(space, {}), peer.acked.get(space, {}))
        return held

    def _reached(self) -> list[Peer]:
        return [peer for peer in self._members.counted()[1]() if self._is_reached(peer.node)]

    def _is_at(self, peer: Peer) -> bool:
        return all(peer.holds(space, vector) for space, vector in self._needed.items())


def is_alone(w: object) -> bool:
    """Whether a write concern asks for no other node. (True equals 1, and is none.)"""
    return w is None or (type(w) is int and w == 1)


def nodes_wanted(w: object, members: int) -> int:
    """The number of nodes that ``w`` stands for among so many members; None is this one alone, and so, at the least,
    is ``reached``.

    :raises InvalidRequest: it is neither a number from 1 on, nor ``majority``, ``all`` or ``reached``.
    """
    if w is None:
        return 1
    if w == "all":
        return members
    if w == REACHED:
        return 1
    if w == "majority":
        return members // 2 + 1
    if type(w) is int and w >= 1:
        return w
    raise InvalidRequest('w must be a number of nodes, "majority", "all" or "reached"')


def check_possible(w: object, holders: Holders, dials: Iterable[Dial], name: str) -> None:
    """Refuse at once what cannot be: more nodes than this one (called ``name``) knows of.

    Where members are not listed, an address that has not answered yet may turn out to be one.

    :raises InvalidRequest: that, or ``w`` is no write concern.
    """
    count, met = holders.counted()
    wanted = nodes_wanted(w, count)
    most, silent = count, 0
    if not holders.is_initialised:
        most, silent = 1 + len(met()), sum(not dial.node and not dial.is_self for dial in dials)
    if wanted > most + silent:
        known = [name, *(peer.name for peer in met())]
        unheard = f" and {silent} address{'es' if silent > 1 else ''} where nobody has answered yet" if silent else ""
        raise InvalidRequest(
            f"w={wanted} cannot be met: this node knows of {most} node{'s' if most > 1 else ''} ({names(known)})"
            f"{unheard}; nothing was done",
            members=known,
        )
