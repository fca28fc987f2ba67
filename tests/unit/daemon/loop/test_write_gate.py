"""Who has to wait while many rows are on their way to their tables, and that they go on."""

from __future__ import annotations

from crdtsyncd.loop.write_gate import FREE_ROWS, FREE_ROWS_OF_ALL, WriteGate


class Store:
    """As much of a store as is looked at."""

    is_crowded = True


def test_whoever_brings_much_waits_until_it_is_over() -> None:
    store, went_on = Store(), list[str]()
    gate = WriteGate(lambda: store.is_crowded)
    gate.wrote("heavy", FREE_ROWS + 1)
    gate.wrote("light", 3)
    gate.wrote("reader", 0)
    assert not gate.lets_through("heavy", lambda: went_on.append("heavy"))
    assert gate.lets_through("light", lambda: went_on.append("light"))
    assert gate.lets_through("reader", lambda: went_on.append("reader"))
    store.is_crowded = False
    gate.open()
    assert went_on == ["heavy"]
    assert not gate.is_closed
    assert gate.lets_through("heavy", lambda: None)


def test_if_many_write_each_has_its_share() -> None:
    store = Store()
    gate = WriteGate(lambda: store.is_crowded)
    writers = [f"writer {number}" for number in range(4 * FREE_ROWS_OF_ALL // FREE_ROWS)]
    for writer in writers:
        gate.wrote(writer, FREE_ROWS // 4)
        assert gate.lets_through(writer, lambda: None)
    gate.wrote(writers[0], 1)
    assert not gate.lets_through(writers[0], lambda: None)
    assert gate.lets_through(writers[1], lambda: None)
    assert gate.lets_through("reader", lambda: None)


def test_what_was_written_before_there_was_a_crowd_does_not_count() -> None:
    store = Store()
    store.is_crowded = False
    gate = WriteGate(lambda: store.is_crowded)
    before = gate.is_counting
    store.is_crowded = True
    assert (before, gate.is_counting) == (False, True)
    assert gate.lets_through("heavy", lambda: None)


def test_one_that_ended_is_forgotten() -> None:
    store, went_on = Store(), list[str]()
    gate = WriteGate(lambda: store.is_crowded)
    gate.wrote("heavy", 10_000)
    assert not gate.lets_through("heavy", lambda: went_on.append("heavy"))
    gate.forget("heavy")
    gate.open()
    assert went_on == []
