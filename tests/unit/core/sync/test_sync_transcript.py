"""What a node and a peer say to each other, as a whole: ``sync.txt``.

``./dev test -n 0 --rewrite tests/unit/core/sync`` writes it anew; then read the difference.
"""

from __future__ import annotations

from collections.abc import Callable

from crdtsync.causality import Writer
from crdtsync.core.sync.acks import cut_of, digest_of
from crdtsync.wire.peer.changes import Ack, Changes, SpaceAck
from tests.fleet.fleet import fleet_of
from tests.fleet.listening import Listening
from tests.fleet.stranger import Stranger
from tests.unit.core.sync.test_sync import chain


def test_early_changes_an_ack_and_a_divergence(same_as_file: Callable[[str, str], None]) -> None:
    with fleet_of("a") as fleet:
        a = fleet["a"]
        talk = Listening(Stranger(a))
        first, second, third = (change.body for change in chain(77, 3))
        talk.say(Changes("default", 0, [third]), why="early")
        talk.say(Changes("default", 0, [first, second]))
        talk.pass_time(0.1)
        cut = cut_of(a.replica.vector)
        talk.say(Ack(0, [SpaceAck("default", 0, {Writer(77): 3}, cut, digest_of(a.replica))]), why="the same digest")
        a.agent("ann").set("k", "own")
        talk.listen()
        own = a.replica.vector
        talk.say(Ack(0, [SpaceAck("default", 0, own, cut_of(own), b"x" * 16)]), why="another digest")
        talk.pass_time(0.1)
    same_as_file("sync.txt", talk.text)
