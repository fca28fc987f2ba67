"""What nodes tell each other of their resolvers, and who is asked, as a whole: ``resolvers.txt``.

``./dev test -n 0 --rewrite tests/unit/core/resolvers`` writes it anew; then read the difference.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.fleet.fleet import fleet_of
from tests.fleet.listening import Overhearing
from tests.fleet.resolver import Resolving, conflict, in_order


def test_the_first_asks_and_the_second_takes_over(same_as_file: Callable[[str, str], None]) -> None:
    with fleet_of("a", "b", linked=True) as fleet:
        one, other = in_order(fleet)
        talk = Overhearing(fleet)
        talk.note(f"a resolver attaches to {one.name}, then one to {other.name}")
        many = [Resolving(machine) for machine in (one, other)]
        fleet.run(0.3)
        talk.note(f"a key has two values, written on {other.name}")
        conflict(other, "k", "x", "y")
        fleet.sync()
        talk.ends(f"asked: {[resolver.keys() for resolver in many]}")
        talk.note(f"the resolver on {one.name} gives up")
        many[0].done("k", error="no idea")
        fleet.sync()
        (event,) = many[1].asked()
        talk.ends(f"asked: [[], ['{event['key']}']]")
        talk.note(f"the one on {other.name} answers")
        many[1].answer(event, "z")
        fleet.run(0.3)
        talk.ends(f"a: {fleet['a'].agent('ann').values('k')}, b: {fleet['b'].agent('bob').values('k')}")
    same_as_file("resolvers.txt", talk.text)
