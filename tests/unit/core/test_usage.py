"""Alarms before something is full: once, with hysteresis, and not for what is full by design."""

from __future__ import annotations

from crdtsync.core.alarms import Alarms
from crdtsync.core.usage import BUFFER, BUFFER_LOOKS_MIN, CAP, LIMIT, Usage, UsageAlarms, fullest


def look(alarms: UsageAlarms, used: int, kind: str = LIMIT) -> None:
    alarms.look([Usage("things", used, 100, "things", kind, "whose")])


def made() -> tuple[Alarms, UsageAlarms]:
    alarms = Alarms(lambda *_args, **_fields: None)
    return alarms, UsageAlarms(alarms)


def test_an_alarm_is_raised_at_70_percent_and_ends_below_60():
    alarms, usage = made()
    look(usage, 69)
    assert not alarms.raised()
    look(usage, 70)
    assert [alarm.code for alarm in alarms.raised()] == ["near_limit"]
    assert "70 of 100 things" in alarms.raised()[0].message
    assert "whose" in alarms.raised()[0].message
    look(usage, 61)
    assert alarms.raised()
    look(usage, 59)
    assert not alarms.raised()
    assert alarms.raised_count == 1


def test_a_buffer_that_is_full_for_a_moment_is_no_alarm():
    alarms, usage = made()
    for _ in range(BUFFER_LOOKS_MIN - 1):
        look(usage, 100, BUFFER)
    look(usage, 0, BUFFER)
    assert not alarms.raised()
    for _ in range(BUFFER_LOOKS_MIN):
        look(usage, 100, BUFFER)
    assert alarms.raised()


def test_what_is_kept_at_its_cap_is_no_alarm():
    alarms, usage = made()
    look(usage, 100, CAP)
    assert not alarms.raised()


def test_of_many_the_fullest_counts():
    assert fullest("waits", [(1, "a"), (7, "b"), (3, "c")], 10, "requests", LIMIT).scope == "b"
    assert fullest("waits", [], 10, "requests", LIMIT).used == 0
