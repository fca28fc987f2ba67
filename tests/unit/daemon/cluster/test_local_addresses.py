"""At which addresses others reach this daemon, and why at none."""

from __future__ import annotations

from types import SimpleNamespace

import ifaddr
import pytest
from crdtsyncd.cluster.local_addresses import reachable

ON_ALL = ["0.0.0.0:7420"]


def interfaces(*addresses: str) -> list[SimpleNamespace]:
    return [SimpleNamespace(ips=[SimpleNamespace(ip=address)]) for address in addresses]


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> list[SimpleNamespace]:
    found: list[SimpleNamespace] = interfaces("127.0.0.1", "192.0.2.1")
    monkeypatch.setattr(ifaddr, "get_adapters", lambda: found)
    return found


def test_all_interfaces_are_those_of_the_machine(machine: list[SimpleNamespace]):
    assert reachable(ON_ALL, []) == (("192.0.2.1:7420",), "")
    assert reachable(["127.0.0.1:1", "0.0.0.0:2"], []) == (("127.0.0.1:1", "192.0.2.1:2"), "")


def test_what_is_advertised_is_worth_nothing_without_a_listener(machine: list[SimpleNamespace]):
    assert reachable(ON_ALL, ["host-a.example"]) == (("host-a.example:7420",), "")
    addresses, why = reachable([], ["host-a.example:7420"])
    assert addresses == ()
    assert "advertises host-a.example:7420 and listens nowhere" in why


def test_who_does_not_listen_hears_so():
    assert reachable([], [])[0] == ()
    assert "does not listen" in reachable([], [])[1]


def test_interfaces_that_cannot_be_read_are_told_from_not_listening(
    machine: list[SimpleNamespace], monkeypatch: pytest.MonkeyPatch
):
    def refuse() -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(ifaddr, "get_adapters", refuse)
    addresses, why = reachable(ON_ALL, [])
    assert addresses == ()
    assert "listens on 0.0.0.0:7420" in why
    assert "cannot be read (Operation not permitted)" in why
    assert "--address" in why
    assert reachable(["0.0.0.0:1", "192.0.2.7:2"], []) == (("192.0.2.7:2",), "")


def test_a_machine_without_a_network_serves_itself(machine: list[SimpleNamespace]):
    machine[:] = interfaces("127.0.0.1")
    addresses, why = reachable(ON_ALL, [])
    assert addresses == ("127.0.0.1:7420",)
    assert "no interface of this machine has an address but loopback" in why
    assert reachable(["[::]:7420"], [])[0] == ("[::1]:7420",)
