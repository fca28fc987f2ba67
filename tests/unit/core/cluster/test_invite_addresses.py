"""An invite names no address that could lead nobody to its node."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from crdtsync.core.access.agent import User
from crdtsync.core.cluster.admission import MEMBERS, Reach
from crdtsync.core.cluster.invite_addresses import check_invite_address
from crdtsync.core.cluster.membership import Member
from crdtsync.errors import InvalidRequest, Refused
from tests.fleet.agent import Refusal
from tests.fleet.fleet import Fleet, fleet_of

NO_ADDRESS = ["nonsense", "127.0.0.1", "foo.example:99999", "foo.example:0", "foo.example:", ":7420",
              "::1:7420", "[nonsense]:7420", "[::1", "a b:7420", "-.-..:1", "127.1:7420", "1:2:3",
              "http://a:1", "a@b:1"]  # fmt: skip
ONLY_LOCAL = ["127.0.0.1:7420", "127.9.9.9:7420", "localhost:27420", "LocalHost.:1", "a.localhost:1", "[::1]:7420",
              "[::ffff:127.0.0.1]:7420", "0.0.0.0:7420", "[::]:7420"]  # fmt: skip
GOOD = [
    "foo.example:7420",
    "host-a:1",
    "192.0.2.1:65535",
    "[2001:db8::1]:7420",
    "[fe80::1%eth0]:7420",
    "münchen.example:1",
]


@pytest.mark.parametrize("address", NO_ADDRESS)
@pytest.mark.parametrize("is_local", [False, True])
def test_what_is_no_address_is_refused(address: str, is_local: bool) -> None:
    with pytest.raises(InvalidRequest, match="address"):
        check_invite_address(address, is_local=is_local)


@pytest.mark.parametrize("address", ONLY_LOCAL)
def test_what_leads_every_host_to_itself_is_for_this_machine_alone(address: str) -> None:
    with pytest.raises(Refused, match="no other host could use the invite") as refusal:
        check_invite_address(address, is_local=False)
    assert refusal.value.code == "unreachable"
    check_invite_address(address, is_local=True)


@pytest.mark.parametrize("address", GOOD)
def test_what_others_may_reach_is_taken(address: str) -> None:
    check_invite_address(address, is_local=False)


@pytest.fixture
def pair() -> Iterator[Fleet]:
    with fleet_of("a", "b") as fleet:
        yield fleet


def test_a_node_that_listens_nowhere_gives_no_invite_whatever_address_it_names(pair: Fleet) -> None:
    machine = pair["a"]
    key = (("ab" * 32, b"certificate"),)
    root = machine.agent("root", user=User(0, (0,), is_local=False))
    machine.step(Reach(key, (), "this node does not listen", operators=(0,), is_listening=False))
    node = machine.node
    node.cluster.put(MEMBERS, node.identity.node, Member(node.identity.node, "a", key))
    machine.turn()
    with pytest.raises(Refusal, match="does not listen"):
        root.ask("cluster_invite", addresses=["foo.example:7420"])
    machine.step(Reach(key, ("127.0.0.1:1",), "on loopback only", operators=(0,)))
    assert root.ask("cluster_invite", addresses=["foo.example:7420"])["addresses"] == ["foo.example:7420"]
    with pytest.raises(Refusal, match="loopback"):
        root.ask("cluster_invite", addresses=["foo.example:7420", "localhost:1"])
