"""Cards: shown on every host while their agent is connected, stored nowhere."""

from __future__ import annotations

from typing import Any

import pytest

from crdtsync.wire.codec import pack, unpack
from crdtsync.wire.peer.gossip import CARDS, Cards, ToldCard
from crdtsync.wire.peer.meshing import MESH, Reached
from tests.fleet.agent import Agent, Refusal
from tests.fleet.fleet import fleet_of
from tests.fleet.stranger import Stranger


def shown(agent: Agent, prefix: str = "", **args: Any) -> list[tuple[str, str, str, Any]]:
    cards = agent.ask("shown", prefix=prefix, **args)["cards"]
    return [(card["key"], card["agent"], card["node"], unpack(card["value"])) for card in cards]


def show(agent: Agent, key: str, value: object) -> None:
    agent.ask("show", key=key, value=pack(value))


def fill(places: list[tuple[Agent, int]]) -> None:
    for agent, n in places:
        show(agent, f"{agent.name}/{n}", "x" * 2000)


def test_a_card_is_seen_on_every_host_and_goes_with_its_connection_and_nothing_is_stored():
    with fleet_of("a", "b", "c") as fleet:
        fleet.link("a", "b")
        fleet.link("b", "c")  # what a shows reaches c over b
        fleet.run(1)
        ann, carl = fleet["a"].agent("ann"), fleet["c"].agent("carl")
        before = {machine.name: dict(machine.replica.vector) for machine in fleet.machines.values()}
        show(ann, "presence/1", "reading")
        fleet.run(1)
        assert shown(carl, "presence/") == [("presence/1", "ann", "a", "reading")]
        show(ann, "presence/1", "writing")
        show(ann, "presence/2", "two")
        fleet.run(1)
        assert shown(carl) == [("presence/1", "ann", "a", "writing"), ("presence/2", "ann", "a", "two")]
        assert {machine.name: dict(machine.replica.vector) for machine in fleet.machines.values()} == before
        assert not carl.ask("scan", prefix="")["items"]
        ann.ask("show", key="presence/2")
        fleet.run(1)
        assert shown(carl) == [("presence/1", "ann", "a", "writing")]
        ann.close()
        fleet.run(1)
        assert not shown(carl)
        assert not fleet["b"].log or "bug" not in {event for event, _ in fleet["b"].log}


def test_the_cards_of_a_host_that_is_gone_are_gone_and_come_back_with_it():
    with fleet_of("a", "b", linked=True) as fleet:
        bob = fleet["b"].agent("bob")
        show(fleet["a"].agent("ann"), "k", 1)
        fleet.run(1)
        assert shown(bob)
        fleet.wires[0].close()
        assert not shown(bob)
        fleet.link("a", "b")
        fleet.run(1)
        assert shown(bob) == [("k", "ann", "a", 1)]
        fleet["a"].restart()  # kill -9: its agents are gone, and what they showed
        fleet.link("a", "b")
        fleet.run(1)
        assert not shown(bob)


def test_the_same_client_that_attaches_again_goes_on_showing():
    with fleet_of("a") as fleet:
        ann = fleet["a"].agent("ann")
        show(ann, "k", 1)
        again = Agent(fleet["a"], "ann", client=ann.client)
        assert shown(again) == [("k", "ann", "a", 1)]


def test_cards_have_bounds():
    with fleet_of("a") as fleet:
        ann = fleet["a"].agent("ann")
        with pytest.raises(Refusal, match="2,048 bytes at most"):
            show(ann, "k", "x" * 3000)
        with pytest.raises(Refusal, match="value must be packed"):
            ann.ask("show", key="k", value=7)
        for n in range(100):
            show(ann, f"k/{n}", n)
        with pytest.raises(Refusal, match="a connection shows 100 cards at most"):
            show(ann, "one more", 1)
        show(ann, "k/7", "another value of a card that there is")
        others = [fleet["a"].agent(f"agent-{n}") for n in range(3)]
        places = [(other, n) for other in others for n in range(90)]
        with pytest.raises(Refusal, match="256 KiB together"):
            fill(places)


def test_a_card_in_a_space_that_a_peer_lacks_is_not_told_to_it():
    with fleet_of("a") as fleet:
        node = fleet["a"]
        ann = node.agent("ann")
        peer = Stranger(node, "1" * 32, features=(CARDS,), spaces={"elsewhere": (0, {})})
        show(ann, "k", 1)
        fleet.run(1)
        told = peer.heard(Cards)
        assert told
        assert not any(message.cards for message in told)


def test_an_older_word_that_comes_over_others_is_passed_over():
    with fleet_of("a") as fleet:
        node = fleet["a"]
        news = node.node.sync.cards
        peer = Stranger(node, "1" * 32, features=(CARDS, MESH))
        far = "2" * 32
        peer.say(Reached({far: 1}))
        for told, value in ((7, "new"), (6, "old")):
            peer.say(Cards(far, "far", told, (ToldCard("default", "k", "ann", pack(value)),)))
        assert [unpack(card.value) for _, card in news.shown()] == ["new"]
