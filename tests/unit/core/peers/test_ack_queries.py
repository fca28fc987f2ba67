"""Questions of nodes that are not connected: what is left of them when they are over."""

from __future__ import annotations

from crdtsync.causality import Writer
from crdtsync.core.peers.ack_queries import ASKED_S, TELL_DELAY_S
from crdtsync.wire.peer.meshing import MESH, Ask, Asked, Held, Holding
from tests.fleet.host import Host
from tests.fleet.stranger import Stranger


def test_a_node_rests_when_a_question_ends_while_answers_to_it_are_collected(node: Host) -> None:
    peer = Stranger(node, features=(MESH,))
    peer.say(Ask("asker", 1, (Asked("default", 0, (Writer(7),)),)))
    until_answer_s = ASKED_S - TELL_DELAY_S / 5
    node.fleet.run(until_answer_s, step_s=until_answer_s / 10)
    peer.say(Holding("asker", (Held("default", 0, "other", "other", b"d" * 16, {Writer(7): 1}),)))
    assert node.node.sync.mesh.inquiries.questions
    node.fleet.run(2 * TELL_DELAY_S, step_s=TELL_DELAY_S / 2)  # which fails if the node never rests
    assert not node.node.sync.mesh.inquiries.questions
