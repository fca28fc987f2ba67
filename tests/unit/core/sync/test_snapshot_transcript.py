"""What two nodes say to each other while one takes the other's snapshot, as a whole: ``snapshots.txt``.

``./dev test -n 0 --rewrite tests/unit/core/sync`` writes it anew; then read the difference.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.fleet.fleet import fleet_of
from tests.fleet.listening import Overhearing
from tests.fleet.snapshots import agree, begun


def test_a_snapshot_that_is_cut_off_and_goes_on(same_as_file: Callable[[str, str], None], small: None) -> None:
    with fleet_of("a", "b") as fleet:
        a, b = fleet["a"], fleet["b"]
        talk = Overhearing(fleet)
        talk.note("b is new, and a's log is gone")
        wire, _ = begun(fleet)
        wire.close()
        fleet.pass_time(3)
        talk.note("the connection has broken and comes back, and a is written")
        fleet.link("b", "a")
        a.agent("ann").set("k/00001", "new")
        fleet.sync()
        talk.ends(f"b holds {len(b.replica.entries)} entries")
        talk.note("b is written")
        b.agent("bob").set("mine", 1)
        fleet.run(1, 0.5)
        agree(fleet)
    same_as_file("snapshots.txt", talk.text)
