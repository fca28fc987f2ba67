"""One voter: whom it has promised which key, durably, and what it must not have forgotten before it votes.

The problem. A claim by quorum is held by one at a time, whatever is cut off, since two majorities have a voter in
common, and that one promises a key to one owner at a time. All of it hangs on what a voter remembers:

- A promise is on disk before it is told. It holds until it is given back or its time has passed by this host's own
  steady clock, and a fifth of it more, for clocks that run at different speeds. After a restart the time begins anew.
- A voter whose disk may have gone back (restored, copied, moved to another machine, the machine restarted) has
  forgotten promises. It takes another *incarnation*, and has no vote until so many other voters know that one that
  every majority has one of them. They tell the highest ballot that they have promised; it begins above that. If one of
  them knew an earlier incarnation, the longest time of a promise must pass first.
- Ballots and the numbers of incarnations count up by one. Nobody may use them up: none is further than a microsecond
  a number since 1970, and a day, by this host's clock, so that the next one is always there.
- So a copy that runs beside its original does no harm. Incarnations are numbered, and who knows a higher one takes no
  lower one any more; who counts votes takes none from a voter of which another one in the count knows a higher one.

Leases: Gray and Cheriton 1989. Ballots as in Lamport's Paxos; there is no value to be chosen but the owner.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from hashlib import blake2b
from typing import TYPE_CHECKING

from crdtsync.causality import HLC_AHEAD_MS_MAX
from crdtsync.core.storage.rows import VOTES_NAME
from crdtsync.named_tuple import NamedTuple
from crdtsync.wire.codec import pack, unpack
from crdtsync.wire.peer.votes import ADMIT, ASK, KnownVoter, Vote, Voted

if TYPE_CHECKING:
    from crdtsync.core.identity import Identity
    from crdtsync.core.storage.interface import Storage
    from crdtsync.core.storage.write_batch import WriteBatch

TTL_MS_MIN, TTL_MS_MAX = 1000, 600_000
"""The ``ttl`` of a claim by quorum. A voter that may have forgotten promises waits for the longest one."""
DRIFT = 1.2
"""A promise holds so much longer than the claim, by the voter's clock."""
PROMISES_MAX = 10_000
"""Keys that a voter remembers; of those whose time is over it forgets the oldest, and keeps their highest ballot."""
PROMISES_NODE_MAX = 1_000
"""Keys of these that one node has claimed."""

_PROMISE, _FLOOR, _KNOWN, _OWN = "votes/promise/", "votes/floor", "votes/known/", "votes/own"
NOBODY = "-"
_NUMBER_BYTES = 8
"""The bytes of the number with which an incarnation begins."""


class Promise(NamedTuple):
    """The last promise for a key. ``owner`` is empty when it was given back; its ballot counts all the same.

    ``node``: of the owner. Another one that has read its name can neither give it back nor vote in its place. Empty: an
    older version has promised it, which did not keep that, so whoever knows the owner's name is taken for the owner.
    """

    ballot: int
    owner: bytes
    ttl_ms: int
    agent: str
    until_s: float
    node: str

    def is_of(self, vote: Vote, sender: str) -> bool:
        """Whether it was promised to whoever sends this vote."""
        return self.owner == vote.owner and self.node in (sender, "")


class Voter:
    """The vote of this node, if it is one of ``voters``."""

    def __init__(
        self,
        identity: Identity,
        voters: Iterable[str],
        storage: Storage,
        batch: Callable[[], WriteBatch],
        now_s: float,
        now_ms: Callable[[], int],
    ) -> None:
        self.node = identity.node
        self._here = identity.incarnation or identity.database
        self.voters = tuple(sorted(set(voters)))
        self.list_hash = blake2b(pack(list(self.voters)), digest_size=8).digest()
        self.is_voter = self.node in self.voters
        self._storage = storage
        self._batch = batch
        self._now_ms = now_ms
        self._started_s = now_s
        self._told: dict[str, int] = {}  # by voter that has admitted this one, the highest ballot that it has promised
        self._was_another = False  # whether one of them knew another incarnation
        self.load(now_s)

    def load(self, now_s: float) -> None:
        """Read what is on disk, in place of what memory holds. How old it is nobody knows: its time begins now."""
        self.promises: dict[str, Promise] = {}
        self._keys_of: dict[str, dict[str, None]] = {}  # by node, those promised to it, the oldest first
        self.known: dict[str, bytes] = {}
        floor = self._storage.meta(_FLOOR)
        self.floor = self._top = int.from_bytes(floor or b"", "big")
        self._count = int.from_bytes(self._storage.meta(VOTES_NAME) or b"", "big")
        own = self._storage.meta(_OWN) or bytes(_NUMBER_BYTES)
        self.is_admitted = own[_NUMBER_BYTES:] == self._here
        self.incarnation = own if self.is_admitted else self._after(own)
        for packed in self._storage.metas(_PROMISE):
            key, ballot, owner, ttl_ms, agent, *node = unpack(packed)  # of an older version without the node
            until_s = now_s + DRIFT * ttl_ms / 1000
            self._remember(key, Promise(ballot, owner, ttl_ms, agent, until_s, node[0] if node else ""))
        for packed in self._storage.metas(_KNOWN):
            node, incarnation = unpack(packed)
            self.known[node] = incarnation

    def _after(self, incarnation: bytes) -> bytes:
        """A name for what this voter is now, above another one."""
        number = int.from_bytes(incarnation[:_NUMBER_BYTES], "big") + 1
        return number.to_bytes(_NUMBER_BYTES, "big") + self._here

    @property
    def majority(self) -> int:
        """So many votes make a claim."""
        return len(self.voters) // 2 + 1

    @property
    def state(self) -> str:
        """In a word: whether this node is a voter, and may vote."""
        return "none" if not self.is_voter else "yes" if self.is_admitted else "not yet"

    # -- votes -----------------------------------------------------------------------------------------------------

    def answer(self, vote: Vote, sender: str, now_s: float) -> Voted:
        """The answer, to be sent once the next commit is on disk."""
        if vote.voters != self.list_hash or not self.is_voter:
            return self._refusal(vote, "has another list of voters")
        if vote.what == ADMIT:
            return self._admit(vote, sender)
        if not self.is_admitted:
            return self._refusal(vote, "may have forgotten promises")
        return self._promise(vote, sender, now_s) if vote.what == ASK else self._give(vote, sender)

    def _refusal(self, vote: Vote, why: str) -> Voted:
        return Voted(vote.number, 0, 0, 0, why, b"")

    def highest(self, key: str) -> int:
        """The highest ballot that was ever promised for a key, or a higher one."""
        promise = self.promises.get(key)
        return max(self.floor, 0 if promise is None else promise.ballot)

    def can_be(self, number: int) -> bool:
        """Whether counting up by one can have led to such a ballot, or incarnation; else somebody wastes them."""
        return number <= (self._now_ms() + HLC_AHEAD_MS_MAX) * 1000

    def _voted(self, vote: Vote, granted: bool, left_s: float = 0.0, holder: str = NOBODY) -> Voted:
        known = tuple(KnownVoter(node, self.known[node]) for node in sorted(self.known))
        return Voted(
            vote.number, int(granted), self.highest(vote.key), round(left_s * 1000), holder, self.incarnation, known
        )

    def _promise(self, vote: Vote, sender: str, now_s: float) -> Voted:
        if not TTL_MS_MIN <= vote.ttl_ms <= TTL_MS_MAX:
            return self._refusal(vote, "is asked for too long a time")
        if not self.can_be(vote.ballot):
            return self._refusal(vote, "is asked for a ballot far above all others")
        held = self.promises.get(vote.key)
        is_renewal = held is not None and held.is_of(vote, sender) and held.ballot == vote.ballot
        if held is not None and held.owner and not held.is_of(vote, sender) and now_s < held.until_s:
            return self._voted(vote, False, held.until_s - now_s, held.agent)
        if not is_renewal and vote.ballot <= self.highest(vote.key):
            return self._voted(vote, False)
        if (held is None or held.node != sender) and not self._has_room(sender, now_s):
            return self._refusal(vote, "has no room for more promises")
        until_s = now_s + DRIFT * vote.ttl_ms / 1000
        self._keep(vote.key, Promise(vote.ballot, vote.owner, vote.ttl_ms, vote.agent, until_s, sender))
        return self._voted(vote, True)

    def _give(self, vote: Vote, sender: str) -> Voted:
        held = self.promises.get(vote.key)
        if held is not None and held.is_of(vote, sender):
            self._keep(vote.key, Promise(held.ballot, b"", 0, NOBODY, 0.0, sender))
        return self._voted(vote, True)

    def _keep(self, key: str, promise: Promise) -> None:
        self._forget(key)
        self._remember(key, promise)
        packed = pack([key, promise.ballot, promise.owner, promise.ttl_ms, promise.agent, promise.node])
        self._write(_PROMISE + key, packed)

    def _remember(self, key: str, promise: Promise) -> None:
        self.promises[key] = promise
        self._keys_of.setdefault(promise.node, {})[key] = None
        self._top = max(self._top, promise.ballot)

    def _forget(self, key: str) -> Promise | None:
        promise = self.promises.pop(key, None)
        if promise is not None:
            keys = self._keys_of[promise.node]
            del keys[key]
            if not keys:
                del self._keys_of[promise.node]
        return promise

    def _has_room(self, sender: str, now_s: float) -> bool:
        """Whether one more can be promised to a node, which takes the place of an older one if need be."""
        its_keys = self._keys_of.get(sender, {})
        is_full = len(its_keys) >= PROMISES_NODE_MAX
        if not is_full and len(self.promises) < PROMISES_MAX:
            return True
        for key in its_keys if is_full else self.promises:
            promise = self.promises[key]
            if not promise.owner or now_s >= promise.until_s:
                self._forget(key)
                self._raise_floor(promise.ballot)
                self._write(_PROMISE + key, None)
                return True
        return False

    def _raise_floor(self, ballot: int) -> None:
        if ballot > self.floor:
            self.floor = ballot
            self._top = max(self._top, ballot)
            self._write(_FLOOR, ballot.to_bytes(8, "big"))

    def _write(self, name: str, value: bytes | None) -> None:
        """With the next commit. It counts like a change of this node's own: the next start notices if the disk has gone
        back to before it.
        """
        self._count += 1
        batch = self._batch()
        batch.metas += [(name, value), (VOTES_NAME, self._count.to_bytes(8, "big"))]
        batch.own_changes += 1

    # -- who votes under which name -----------------------------------------------------------------------------------

    def _admit(self, vote: Vote, sender: str) -> Voted:
        if sender not in self.voters or len(vote.incarnation) <= _NUMBER_BYTES:
            return self._refusal(vote, "knows no such voter")
        before = self.known.get(sender, b"")
        is_known = vote.incarnation == before or vote.incarnation[:_NUMBER_BYTES] > before[:_NUMBER_BYTES]
        if is_known and before != vote.incarnation:
            self.known[sender] = vote.incarnation
            self._write(_KNOWN + sender, pack([sender, vote.incarnation]))
        return Voted(vote.number, int(is_known), self._top, 0, NOBODY, before)

    def asks_to_be_admitted(self, number: int) -> Vote | None:
        """The question that this voter asks the others while it has no vote; None: it has one, or is none."""
        if self.is_admitted or not self.is_voter:
            return None
        return Vote(number, self.list_hash, ADMIT, NOBODY, b"-", 0, 0, NOBODY, self.incarnation)

    def admitted(self, node: str, voted: Voted) -> None:
        """Another voter knows this incarnation now, or a higher one: then this one has to be called anew."""
        number = int.from_bytes(voted.incarnation[:_NUMBER_BYTES], "big")
        if self.is_admitted or node not in self.voters or not (self.can_be(voted.ballot) and self.can_be(number)):
            return
        if voted.incarnation:
            self._was_another |= voted.incarnation[_NUMBER_BYTES:] != self._here
        if voted.granted:
            self._told[node] = voted.ballot
        elif voted.incarnation and voted.incarnation[:_NUMBER_BYTES] >= self.incarnation[:_NUMBER_BYTES]:
            self._told.clear()
            self.incarnation = self._after(voted.incarnation)

    def settle(self, now_s: float) -> None:
        """Take up voting, if enough others know this incarnation, and enough time has passed."""
        others = len(self.voters) - 1
        if self.is_admitted or not self.is_voter or len(self._told) < min(others, others - self.majority + 2):
            return
        is_first = int.from_bytes(self.incarnation[:_NUMBER_BYTES], "big") == 1  # also after a restart meanwhile
        is_fresh = others > 0 and is_first and not self._was_another  # alone, nobody could tell
        if not is_fresh and now_s < self._started_s + DRIFT * TTL_MS_MAX / 1000:
            return
        self._raise_floor(max(self._told.values(), default=0))
        self.is_admitted = True
        self._write(_OWN, self.incarnation)


def counted(answers: Mapping[str, Voted], voters: Iterable[str]) -> set[str]:
    """The voters whose promise counts: of which nobody in the count knows a higher incarnation."""
    known = [one for voted in answers.values() for one in voted.known]
    return {
        node
        for node in voters
        if node in answers
        and answers[node].granted
        and not any(one.node == node and one.incarnation > answers[node].incarnation for one in known)
    }
