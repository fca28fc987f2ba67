"""What nodes say of how they are gets to all, once, and the later word counts."""

from __future__ import annotations

from dataclasses import replace

from crdtsync.core.peers.health_gossip import HealthNews
from crdtsync.core.peers.outbox import Outbox
from crdtsync.core.peers.peer_state import Link
from crdtsync.wire.peer.health import HEALTH, Health, ToldAlarm
from crdtsync.wire.peer.hello import Hello
from crdtsync.wire.peer.messages import decode_message

C = Health("c", 100, "1.0", "ready", 12_345, 99_999, (ToldAlarm("fork", 5),))


class Stage:
    """Node ``a``, with links to these peers; of each it is known to whom that is linked."""

    def __init__(self, **near: tuple[str, ...]) -> None:
        self.links: dict[int, Link] = {}
        self.outbox = Outbox()
        self.news = HealthNews("a", self.links, self.outbox)
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
    later = replace(C, told_ms=101, state="read-only")
    stage.news.heard(stage.link("b"), later)
    stage.news.heard(stage.link("d"), C)
    assert stage.news.nodes == {"c": later}
    stage.news.heard(stage.link("b"), Health("a", 999, "9", "ready"))
    assert "a" not in stage.news.nodes, "this node knows better how it is"
    stage.news.forget("c")
    assert stage.news.nodes == {}


def test_of_this_node_only_what_is_news_is_told():
    stage = Stage(b=(), old=())
    own = replace(C, node="a")
    stage.news.tell(own)
    assert stage.told() == {"b": [replace(own, data_bytes=12_000, free_bytes=99_000)]}
    stage.news.tell(replace(own, told_ms=200, data_bytes=12_400))
    assert stage.told() == {}
    stage.news.tell(replace(own, told_ms=300, alarms=()))
    assert [health.told_ms for health in stage.told()["b"]] == [300]
