"""How a change gets to a host that its author is not connected to, message by message: ``relays.txt``.

``./dev test -n 0 --rewrite tests/unit/core/sync`` writes it anew; then read the difference.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.fleet.fleet import fleet_of
from tests.fleet.listening import Overhearing


def test_a_change_goes_through_the_host_between_until_there_is_a_link(same_as_file: Callable[[str, str], None]) -> None:
    with fleet_of("a", "b", "c") as fleet:
        talk = Overhearing(fleet)
        talk.note("b is between a and c")
        fleet.link("a", "b")
        fleet.link("b", "c")
        fleet.sync()
        talk.note("a is written")
        fleet["a"].agent("ann").set("k", 1)
        fleet.run(0.3)
        talk.ends(f"c reads {fleet['c'].agent('cid').get('k')}")
        talk.note("a and c connect")
        fleet.link("a", "c")
        fleet.sync()
        talk.note("a is written again")
        fleet["a"].agent("ann").set("k", 2)
        fleet.run(0.3)
        talk.ends(f"c reads {fleet['c'].agent('cid').get('k')}")
    same_as_file("relays.txt", talk.text)
