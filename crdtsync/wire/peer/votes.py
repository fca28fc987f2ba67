"""Votes: what a host and the voters of its cluster say to each other about a claim by quorum.

For example, host-a claims ``deploy`` for ann and asks the voters a, b and c. Two promise: ann holds it. Host-c asks for
bob, and b says who holds it and for how long yet.
"""

from __future__ import annotations

from typing import Annotated

from crdtsync.named_tuple import NamedTuple
from crdtsync.wire.peer.base import Message, message
from crdtsync.wire.peer.fields import (
    Count,
    Hash,
    KeyText,
    NodeId,
    Several,
    Text,
)

VOTES = "votes"
"""The feature of a node that can vote."""
VOTERS_MAX = 15
"""Voters of a cluster."""

ASK, GIVE, ADMIT = 0, 1, 2
"""Promise a key to an owner; forget such a promise; know from now on under which name a voter votes."""


class KnownVoter(NamedTuple):
    """A voter, and under which name it votes.

    :param node: its id
    :param incarnation: its name as a voter, another one wherever its disk may have gone back
    """

    node: NodeId
    incarnation: Hash


@message
class Vote(Message):
    """Ask a voter for something.

    ``[30, number, voters, what, key, owner, ballot, ttl_ms, agent, incarnation]``

    :param number: the answer repeats this number
    :param voters: a hash of the list of voters; who goes by another list refuses
    :param what: 0: promise; 1: give back; 2: admit the sender as a voter
    :param key: that is claimed
    :param owner: of the claim, a random name
    :param ballot: must be above all that the voter has promised for any key of this name; then it is the fence
    :param ttl_ms: how long the promise is to hold
    :param agent: for whom
    :param incarnation: of the sender, where that is a voter
    """

    TYPE = 30
    FEATURE = VOTES

    number: Count
    voters: Hash
    what: Count
    key: KeyText
    owner: Hash
    ballot: Count
    ttl_ms: Count
    agent: Text
    incarnation: Hash


@message
class Voted(Message):
    """Answer a VOTE. The answer is on the voter's disk.

    ``[31, number, granted, ballot, left_ms, holder, incarnation, [[node, incarnation], …]]``

    :param number: that of the question
    :param granted: 1 if it is promised, given back or admitted; 0 if not
    :param ballot: the highest that the voter has promised; to one that is to be admitted, for any key
    :param left_ms: how long what stands in the way stands yet, at most; 0: nothing does
    :param holder: for whom that was promised, or why the voter has no vote
    :param incarnation: under which name it votes; to one that is to be admitted: under which that voted before
    :param known: under which names the other voters vote
    """

    TYPE = 31
    FEATURE = VOTES

    number: Count
    granted: Count
    ballot: Count
    left_ms: Count
    holder: Text
    incarnation: Hash
    known: Annotated[tuple[KnownVoter, ...], Several(VOTERS_MAX)] = ()
