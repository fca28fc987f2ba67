"""The timeline gives out what is due, earliest first, and forgets what is taken out."""

from __future__ import annotations

from random import Random

import pytest

from crdtsync.core.crdt.timer_heap import Timeline


@pytest.mark.parametrize("seed", range(4))
def test_it_does_what_a_sorted_list_would(seed):
    random = Random(seed)
    timeline: Timeline[int] = Timeline()
    plain: dict[int, float] = {}
    for _ in range(2000):
        name = random.randrange(100)
        match random.randrange(6):
            case 0 | 1 | 2:
                plain[name] = due = random.choice((random.random(), random.randrange(5)))
                timeline.add(name, due)
            case 3 | 4:
                assert timeline.discard(name) is (plain.pop(name, None) is not None)
            case _:
                now = random.random() * 2
                taken = timeline.take(now)
                earliest = min(plain.values(), default=9.0)
                if earliest > now:
                    assert taken is None
                else:
                    assert taken is not None
                    assert plain.pop(taken) == earliest
        assert len(timeline) == len(plain) == len(timeline._items)
        assert {*timeline} == {*plain}
        assert timeline.next_due() == min(plain.values(), default=None)
        assert [item.at for item in timeline._heap] == [*range(len(plain))]
    rest = [timeline.take(9.0) for _ in range(len(plain))]
    assert [plain[name] for name in rest if name is not None] == sorted(plain.values())
    assert timeline.take(9.0) is None
