"""What nodes say of how they are gets to all, once, and the later word counts."""

from __future__ import annotations

import pytest

from crdtsync.causality import SEQ_MAX
from crdtsync.core.peers import health_gossip
from crdtsync.core.peers.health_gossip import HealthNews
from crdtsync.core.peers.outbox import Outbox
from crdtsync.core.peers.peer_state import Link
from crdtsync.wire.peer.gossip import HEALTH, Health, ToldAlarm
from crdtsync.wire.peer.hello import Hello
from crdtsync.wire.peer.messages import decode_message

C = Health("c", 100, "1.0", "ready", 12_345, 99_999, (ToldAlarm("fork", 5),))


class Stage:
    """Node ``a``, with links to these peers; of each it is known to whom that is linked."""

    def __init__(self, **near: tuple[str, ...]) -> None:
        self.links: dict[int, Link] = {}
        self.outbox = Outbox()
        self.news = HealthNews("a", self.links, self.outbox, lambda node: node != "ghost")
        for conn, (name, nodes) in enumerate(near.items()):
            self.links[conn] = link = Link(conn, f"ws://{name}", True, 0.0)
            link.hello = Hello(name, name, b"", b"", {}, 0, features=() if name == "old" else (HEALTH,))
            link.nodes = frozenset(nodes)

    def link(self, name: str) -> Link:
        return next(link for link in self.links.values() if link.peer_node == name)

    def told(self) -> dict[str, list[Health]]:
        sends, self.outbox.sends = self.outbox.sends, []
        found: dict[str, list[Health]] = {}
        for conn, data in sends:
            message = decode_message(data)
            assert isinstance(message, Health)
            found.setdefault(self.links[conn].peer_node, []).append(message)
        return found


def test_it_is_handed_on_to_those_who_do_not_hear_it_themselves():
    stage = Stage(b=(), c=("a", "d"), d=("a", "c"), old=())
    stage.news.heard(stage.link("c"), C)
    assert stage.told() == {"b": [C]}
    stage.news.heard(stage.link("d"), C)
    assert stage.told() == {}, "it goes in no circles"
    stage.news.introduced(stage.link("b"))
    assert stage.told() == {"b": [C]}


def test_the_later_word_counts_whoever_brings_it():
    stage = Stage(b=(), d=())
    later = C.replaced(told_ms=101, state="read-only")
    stage.news.heard(stage.link("b"), later)
    stage.news.heard(stage.link("d"), C)
    assert stage.news.nodes == {"c": later}
    stage.news.heard(stage.link("b"), Health("a", 999, "9", "ready"))
    assert "a" not in stage.news.nodes, "this node knows better how it is"
    stage.news.forget("c")
    assert stage.news.nodes == {}


def test_nobody_else_has_the_last_word_of_a_node_that_is_linked():
    stage = Stage(b=(), c=(), d=())
    lie = C.replaced(told_ms=SEQ_MAX, state="read-only")
    stage.news.heard(stage.link("b"), lie)
    stage.told()
    stage.news.heard(stage.link("c"), C)
    assert stage.news.nodes == {"c": C}
    assert stage.told() == {"b": [C], "d": [C]}
    stage.news.heard(stage.link("c"), C)
    assert stage.told() == {}, "it is no news"


def test_who_is_no_member_is_not_remembered():
    stage = Stage(b=(), d=())
    stage.news.heard(stage.link("b"), C.replaced(node="ghost"))
    assert (stage.news.nodes, stage.told()) == ({}, {})


def test_what_is_remembered_is_bounded_and_nodes_that_are_linked_find_room(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(health_gossip, "HEARD_MAX", 7)
    stage = Stage(b=(), c=())
    alarms = tuple(ToldAlarm("fork", n) for n in range(2))
    for n in range(5):
        stage.news.heard(stage.link("b"), C.replaced(node=f"n{n}", alarms=alarms))
    assert list(stage.news.nodes) == ["n0", "n1"]
    stage.news.heard(stage.link("b"), C.replaced(node="n0", told_ms=101, alarms=()))
    stage.news.forget("n1")
    stage.news.heard(stage.link("b"), C.replaced(node="n5", alarms=alarms))
    stage.news.heard(stage.link("b"), C.replaced(node="n6", alarms=alarms))
    stage.news.heard(stage.link("c"), C.replaced(alarms=alarms * 4))
    assert list(stage.news.nodes) == ["n0", "n5", "n6", "c"]
    stage.news.heard(stage.link("b"), C.replaced(node="n7", alarms=()))
    assert "n7" not in stage.news.nodes


def test_of_this_node_only_what_is_news_is_told():
    stage = Stage(b=(), old=())
    own = C.replaced(node="a")
    stage.news.tell(own)
    assert stage.told() == {"b": [own.replaced(data_bytes=12_000, free_bytes=99_000)]}
    stage.news.tell(own.replaced(told_ms=200, data_bytes=12_400))
    assert stage.told() == {}
    stage.news.tell(own.replaced(told_ms=300, alarms=()))
    assert [health.told_ms for health in stage.told()["b"]] == [300]
