"""What peers say of other nodes without having been asked, or of nodes that nobody knows."""

from __future__ import annotations

import pytest

from crdtsync.causality import SEQ_MAX, Writer
from crdtsync.wire.peer.meshing import MESH, Ask, Asked, Held, Holding
from tests.fleet.host import Host
from tests.fleet.stranger import Stranger


def held(node: str, writer: int = 7) -> Held:
    return Held("default", 0, node, "ghost", b"d" * 16, {Writer(writer): 1})


def test_an_answer_that_nobody_asked_for_is_passed_over(node: Host) -> None:
    peer = Stranger(node, features=(MESH,))
    me = node.node.identity.node
    peer.say(Holding(me, tuple(held(f"ghost-{number}") for number in range(100))))
    node.turn()
    assert set(node.node.sync.peers) == {"stranger"}


def test_of_an_answer_only_the_writers_that_were_asked_about_are_remembered(node: Host) -> None:
    peer = Stranger(node, features=(MESH,))
    peer.say(Ask("asker", 1, (Asked("default", 0, (Writer(7),)),)))
    peer.say(Holding("asker", (held("other"), held("another", 8))))
    peer.say(Holding("nobody", (held("third"),)))
    questions = node.node.sync.mesh.inquiries.questions
    assert list(questions) == ["asker"]
    known = {of: one.vector for (_, _, of), one in questions["asker"].known.items() if of != peer_of(node)}
    assert known == {"other": {7: 1}, "another": {}}


def test_who_is_no_member_is_neither_asked_for_nor_remembered(node: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    peer = Stranger(node, features=(MESH,))
    inquiries = node.node.sync.mesh.inquiries
    monkeypatch.setattr(inquiries, "_is_member", lambda of: of == "asker")
    peer.say(Ask("ghost", 1, (Asked("default", 0, (Writer(7),)),)))
    peer.say(Ask("asker", 1, (Asked("default", 0, (Writer(7),)),)))
    peer.say(Holding("asker", (held("ghost"),)))
    assert list(inquiries.questions) == ["asker"]
    assert {of for _, _, of in inquiries.questions["asker"].known} == {peer_of(node)}


@pytest.mark.parametrize("is_linked_before", [True, False])
def test_nobody_asks_under_the_name_of_a_node_that_is_linked(node: Host, is_linked_before: bool) -> None:
    """With the highest round there is: then that node's own questions would be late, and its writes wait in vain."""

    def ask(peer: Stranger, number: int, writer: int) -> None:
        peer.say(Ask("host-b", number, (Asked("default", 0, (Writer(writer),)),)))

    questions = node.node.sync.mesh.inquiries.questions
    liar = Stranger(node, features=(MESH,))
    honest = Stranger(node, "host-b", features=(MESH,)) if is_linked_before else None
    ask(liar, SEQ_MAX, 7)
    assert ("host-b" in questions) is not is_linked_before
    honest = honest or Stranger(node, "host-b", features=(MESH,))
    ask(honest, 1, 8)
    ask(liar, SEQ_MAX, 7)
    assert (questions["host-b"].round, questions["host-b"].wanted) == (1, {("default", 0): {8}})
    ask(honest, 2, 9)
    assert questions["host-b"].wanted == {("default", 0): {9}}


def peer_of(node: Host) -> str:
    return node.node.identity.node
