"""The values that the author of a write had seen, and that the write therefore removes.

For example, Ann reads ``k``, which has the siblings 2.1.0 and 3.1.0, and sets it. Before her write comes in, Dave's
4.1.0 does. Her write removes 2.1.0 and 3.1.0, and not 4.1.0, which she never saw.

The rule behind every write: *it supersedes what its author had seen*, not what this daemon happens to hold. The request
carries that as ``seen``:

- Without ``seen``, the author never read the key (a *blind* write). The write supersedes the winner only, and the reply
  shows in ``replaced`` what that was.
- With a version, the write supersedes exactly the entries of that version. The daemon leaves out those that it does not
  hold yet, and the reply says ``"behind": true``. With ``"strict": true`` it waits for them up to ``timeout``, and
  then fails without effect.
- With ``"?"``, the author read the key long ago and has forgotten what. The write supersedes nothing, and its result
  may be a sibling.

In a batch, a version also covers what the batch itself wrote to the key before. A write may be sent before the reply to
an earlier one of the same key. Then it has ``"follows": {key: [n, index, …]}``: the numbers of those writes, oldest
first, each with its index in its batch (else 0). The daemon takes the newest of them that was done, and counts what
that one has left as seen, unless ``strict`` or ``if_version`` is given.
"""

from __future__ import annotations

from collections.abc import Sequence

from crdtsync.causality import Dot, VersionVector, merge, vector_of
from crdtsync.core.crdt.entry import Entry, inside, reach_of
from crdtsync.errors import CrdtSyncError
from crdtsync.wire.change import RemoveRange
from crdtsync.wire.limits import NAMED_DOTS_MAX
from crdtsync.wire.tokens import Version

READ_LONG_AGO = "?"
NOTHING = Version()
"""The version of an author that read the key long ago: it supersedes nothing."""

Removes = tuple[Dot, ...] | RemoveRange


class NotYet(Exception):  # not an error: the request waits
    """The request names changes that this node does not hold yet: ``vector`` says which.

    ``otherwise``: the error if no node is known that has them; None: wait all the same.
    """

    def __init__(self, vector: VersionVector, otherwise: CrdtSyncError | None = None) -> None:
        super().__init__()
        self.vector = vector
        self.otherwise = otherwise


def ahead(vector: VersionVector, version: Version) -> VersionVector:
    """The part of ``version`` that a replica at ``vector`` does not hold."""
    named = vector_of(version.dots)
    merge(named, version.vector or {})
    return {writer: seq for writer, seq in named.items() if seq > vector.get(writer, 0)}


def covered(held: Sequence[Entry], version: Version, others: bool) -> list[Entry]:
    """Those of a key's entries that the author had seen. An author has also seen what the same batch wrote before,
    unless it said that it had seen nothing.
    """
    if version is NOTHING:
        return []
    dots = {*version.dots, *version.others} if others else {*version.dots}
    unseen = () if others else {*version.others}
    vector = version.vector or {}
    found = [] if unseen else inside(held, vector)
    if len(found) == len(held):  # nearly always, and each of thousands would take ten times as long
        return found
    return [
        entry
        for entry in held
        if (dots and entry.dot in dots)
        or not entry.row
        or (entry.is_in(vector) and not (unseen and entry.dot in unseen))
    ]


def removals(gone: list[Entry], seen: Version | None, reach: VersionVector | None = None) -> list[Removes]:
    """The record of removing ``gone``: their dots, or, if those are many, a vector that covers exactly them; ``reach``:
    that vector, where it is known.
    """
    if len(gone) <= NAMED_DOTS_MAX:
        return [tuple(entry.dot for entry in gone)] if gone else []
    if reach is not None:
        return [RemoveRange(dict(reach))]
    if seen is None:
        return [RemoveRange(reach_of(gone)[0])]
    # `gone` is all that the vector covers: a delete covers the others too
    within = inside(gone, seen.vector or {})
    named = {*within}
    beyond = tuple(entry.dot for entry in gone if entry not in named)
    covering: list[Removes] = [RemoveRange(reach_of(within)[0])] if within else []
    return [*covering, beyond] if beyond else covering
