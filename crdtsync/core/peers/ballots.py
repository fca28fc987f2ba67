"""Claims by quorum as a host makes them for its agents: ask every voter, count, and give back what did not suffice.

A claim has a *ballot*, above all that the voters of its majority have ever promised for the key: it is the fence. Any
two majorities have a voter in common, so a later claim has a higher one. A voter that has promised a higher ballot says
which; then the host asks once more, with one above that.

Voters are asked directly: one that this host is not connected to does not vote for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from crdtsync.core.peers.voter import NOBODY, TTL_MS_MAX, TTL_MS_MIN, Voter, counted
from crdtsync.errors import InvalidRequest, QuotaExceeded
from crdtsync.wire.limits import check_key
from crdtsync.wire.peer.votes import ASK, GIVE, Vote, Voted

if TYPE_CHECKING:
    from crdtsync.core.peers.outbox import Outbox
    from crdtsync.core.peers.peer_state import Link, Peer

ANSWER_S = 2.0
"""How long voters may take to answer."""
REPEAT_S = 5.0
"""How often a voter asks to be admitted."""
COUNTS_MAX = 1000
"""Counts under way on one host."""
OWNER_BYTES = 16

Done = Callable[[dict[str, Any]], None]


class Count:
    """One count under way: of a claim, or of its renewal."""

    def __init__(self, vote: Vote, until_s: float, is_renewal: bool, done: Done) -> None:
        self.vote = vote
        self.until_s = until_s
        self.is_renewal = is_renewal
        self.done = done
        self.answers: dict[str, Voted] = {}
        self.is_second = False


class Ballots:
    """The counts of one host, and what its voter is asked."""

    def __init__(self, voter: Voter, outbox: Outbox, links: Mapping[int, Link], peers: Mapping[str, Peer]) -> None:
        self.voter = voter
        self._outbox = outbox
        self._links = links
        self._peers = peers
        self._counts: dict[int, Count] = {}
        self._number = 0
        self._highest: dict[str, int] = {}
        self._repeat_s = 0.0

    # -- for agents ------------------------------------------------------------------------------------------------

    def begin(self, args: Mapping[str, Any], agent: str, now_s: float, done: Done) -> None:
        """The request ``vote``: claim ``key`` for ``owner``, renew that with its ``fence``, or ``give`` it back.

        :raises InvalidRequest: there are no voters, or an argument is not as it has to be.
        """
        if not self.voter.voters:
            raise InvalidRequest("there are no voters: name them by the setting voters, the same on every host")
        key, owner = check_key(args.get("key")), args.get("owner")
        ttl_ms, fence = args.get("ttl"), args.get("fence", 0)
        if type(owner) is not bytes or len(owner) != OWNER_BYTES:
            raise InvalidRequest(f"owner must be {OWNER_BYTES} random bytes")
        if type(fence) is not int or not 0 <= fence < 2**53:
            raise InvalidRequest("fence must be that of a claim")
        if args.get("give"):
            self._ask(Count(self._vote(GIVE, key, owner, fence, 0, agent), now_s + ANSWER_S, True, done), now_s)
            return
        if type(ttl_ms) is not int or not TTL_MS_MIN <= ttl_ms <= TTL_MS_MAX:
            raise InvalidRequest(f"the ttl of a claim by quorum is {TTL_MS_MIN:,} to {TTL_MS_MAX:,} ms")
        if len(self._counts) >= COUNTS_MAX:
            raise QuotaExceeded(f"{COUNTS_MAX:,} claims are being counted already", retry_ms=round(ANSWER_S * 1000))
        ballot = fence or self._highest.get(key, self.voter.floor) + 1
        vote = self._vote(ASK, key, owner, ballot, ttl_ms, agent)
        self._ask(Count(vote, now_s + ANSWER_S, bool(fence), done), now_s)

    def _vote(self, what: int, key: str, owner: bytes, ballot: int, ttl_ms: int, agent: str) -> Vote:
        self._number += 1
        voter = self.voter
        return Vote(self._number, voter.list_hash, what, key, owner, ballot, ttl_ms, agent, voter.incarnation)

    def _ask(self, count: Count, now_s: float) -> None:
        self._counts[count.vote.number] = count
        count.answers.clear()
        self._send(count.vote)
        if self.voter.is_voter:
            count.answers[self.voter.node] = self.voter.answer(count.vote, self.voter.node, now_s)
        self._look(count, now_s)

    def _give(self, vote: Vote, now_s: float) -> None:
        self._send(vote)
        if self.voter.is_voter:
            self.voter.answer(vote, self.voter.node, now_s)

    def _send(self, vote: Vote) -> None:
        for node in self.voter.voters:
            link = self._link(node)
            if link is not None:
                self._outbox.send(link, vote)

    def _link(self, node: str) -> Link | None:
        peer = self._peers.get(node)
        link = None if peer is None else peer.link
        return link if link is not None and link.takes(Vote) else None

    # -- from peers ------------------------------------------------------------------------------------------------

    def introduced(self, now_s: float) -> None:
        """A peer is there: it may be a voter that has not admitted this one."""
        self._repeat_s = now_s

    def asked(self, link: Link, vote: Vote, now_s: float) -> None:
        """A peer asks the voter here."""
        self._outbox.send(link, self.voter.answer(vote, link.peer_node, now_s))

    def answered(self, link: Link, voted: Voted, now_s: float) -> None:
        """A voter answers."""
        count = self._counts.get(voted.number)
        if voted.number == 0:
            self.voter.admitted(link.peer_node, voted)
            self._repeat_s = now_s if not voted.granted else self._repeat_s
            self.voter.settle(now_s)
        elif count is not None and link.peer_node in self.voter.voters and self.voter.can_be(voted.ballot):
            count.answers[link.peer_node] = voted
            self._look(count, now_s)

    def _look(self, count: Count, now_s: float) -> None:
        """Whether it is decided, as far as the answers go."""
        voters, majority = self.voter.voters, self.voter.majority
        silent = [node for node in voters if node not in count.answers and self._link(node) is not None]
        if count.vote.what == GIVE:
            if not silent or now_s >= count.until_s:
                self._end(count, {"granted": False})
            return
        granted = counted(count.answers, voters)
        if len(granted) >= majority:
            self._note(count.vote.key, count.vote.ballot)
            self._end(count, {"granted": True, "fence": count.vote.ballot})
            return
        if len(granted) + len(silent) < majority or now_s >= count.until_s:
            self._fail(count, now_s)

    def _fail(self, count: Count, now_s: float) -> None:
        vote, answers = count.vote, count.answers
        highest = max((voted.ballot for voted in answers.values()), default=0)
        asked = 0 if count.is_renewal else vote.ballot  # voters may promise it yet, and answer too late
        self._note(vote.key, max(highest, asked))
        holders = [voted for voted in answers.values() if voted.left_ms]
        is_low = not holders and highest >= vote.ballot and not count.is_second and not count.is_renewal
        del self._counts[vote.number]
        if is_low and now_s < count.until_s:
            again = self._vote(ASK, vote.key, vote.owner, highest + 1, vote.ttl_ms, vote.agent)
            second = Count(again, count.until_s, False, count.done)
            second.is_second = True
            self._ask(second, now_s)
            return
        if not count.is_renewal:
            self._give(self._vote(GIVE, vote.key, vote.owner, vote.ballot, 0, vote.agent), now_s)
        holder = max(holders, key=lambda voted: voted.left_ms, default=None)
        why = sorted({voted.holder for voted in answers.values() if not voted.granted and not voted.left_ms} - {NOBODY})
        count.done(
            {
                "granted": False,
                "agent": None if holder is None else holder.holder,
                "left": 0 if holder is None else holder.left_ms,
                "voters": len(self.voter.voters),
                "answered": len(answers),
                "why": why,
            }
        )

    def _note(self, key: str, ballot: int) -> None:
        if len(self._highest) >= COUNTS_MAX:
            self._highest.clear()
        self._highest[key] = max(ballot, self._highest.get(key, 0))

    def _end(self, count: Count, result: dict[str, Any]) -> None:
        del self._counts[count.vote.number]
        count.done(result)

    # -- a turn -------------------------------------------------------------------------------------------------------

    def tick(self, now_s: float) -> None:
        """End what has waited long enough; ask to be admitted."""
        for count in [count for count in self._counts.values() if now_s >= count.until_s]:
            self._look(count, now_s)
        self.voter.settle(now_s)
        if now_s >= self._repeat_s:
            self._repeat_s = now_s + REPEAT_S
            vote = self.voter.asks_to_be_admitted(0)
            if vote is not None:
                self._send(vote)

    def reload(self, now_s: float) -> None:
        """The commit failed: begin anew, with what is on disk."""
        counts, self._counts = self._counts, {}
        self.voter.load(now_s)
        for count in counts.values():
            count.done({"granted": False, "agent": None, "left": 0, "voters": 0, "answered": 0, "why": []})

    def deadline_s(self) -> float | None:
        """When :meth:`tick` wants to be called."""
        due = [count.until_s for count in self._counts.values()]
        if not self.voter.is_admitted and self.voter.is_voter:
            due.append(self._repeat_s)
        return min(due, default=None)
