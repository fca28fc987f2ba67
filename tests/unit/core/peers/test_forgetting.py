"""A forgotten node, at an address that is tried still, counts as one that was never met, whoever had dialled."""

from __future__ import annotations

import pytest

from tests.fleet.fleet import Fleet, fleet_of


@pytest.mark.parametrize("dials_itself", [False, True])
def test_an_address_counts_whoever_had_answered_there(dials_itself: bool) -> None:
    with fleet_of("a", "b") as fleet:
        wire = fleet.link("a", "b") if dials_itself else fleet.link("b", "a")
        a = fleet["a"]
        a.expect_peer(*_addresses(fleet))
        fleet.sync()
        wire.close("gone")
        fleet.sync()
        assert a.node.fleet.counted()[0] == 2
        a.node.fleet.forget("b")
        assert a.node.fleet.counted()[0] == 2
        assert a.node.fleet.counted()[1]() == []


def _addresses(fleet: Fleet) -> list[str]:
    """Where a tries to reach b: where it has, or else somewhere."""
    return [url.removeprefix("ws://") for url in fleet["a"].node.sync.dials] or ["b"]
