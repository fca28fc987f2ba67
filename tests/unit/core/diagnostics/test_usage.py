"""Alarms before something is full: once, with hysteresis, and not for what is full by design."""

from __future__ import annotations

from crdtsync.core.alarms import Alarms
from crdtsync.core.cluster import spaces
from crdtsync.core.diagnostics import usage
from crdtsync.core.diagnostics.usage import BUFFER, BUFFER_LOOKS_MIN, CAP, LIMIT, Usage, UsageAlarms, fullest
from crdtsync.core.replica.schemas import declare
from crdtsync.wire.codec import pack


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


def test_the_most_siblings_are_looked_for_only_where_something_has_happened(node, monkeypatch):
    ann = node.agent("ann")
    for value in range(3):
        ann.set("k", value, seen="?")
    looked = []
    real = usage.most_siblings

    def most_siblings(replica):
        looked.append(replica.name)
        return real(replica)

    monkeypatch.setattr(usage, "most_siblings", most_siblings)

    def siblings():
        (found,) = [one for one in usage.pressing(node.node, node.node.crowds) if one.name == "key_siblings"]
        return found.used, found.scope

    assert [siblings(), siblings()] == [(3, "k"), (3, "k")]
    assert looked == ["default"]
    ann.set("k", 3, seen="?")
    assert siblings() == (4, "k")
    ann.do("resolve", key="k", value=pack(9))
    assert siblings() == (0, "")


def test_schemas_and_spaces_are_told_before_there_can_be_no_more(node, monkeypatch):
    monkeypatch.setattr(declare, "SCHEMAS_MAX", 10)
    monkeypatch.setattr(spaces, "SPACES_MAX", 10)
    ann = node.agent("ann")
    alarms, looker = made()
    for number in range(7):
        looker.look(usage.pressing(node.node, node.node.crowds))
        assert not alarms.raised()
        ann.do("schema_set", pattern=f"a{number}/**", policy="max")
        ann.do("space_create", name=f"space{number}")
    looker.look(usage.pressing(node.node, node.node.crowds))
    schemas, named = sorted(alarm.message for alarm in alarms.raised())
    assert schemas.startswith("schemas (default) stands at 7 of 10 schemas")
    assert named.startswith("spaces stands at 7 of 10 spaces")


def test_what_the_alarms_look_at_reads_nothing_from_disk(node, monkeypatch):
    monkeypatch.setattr(node.node, "storage", None)
    kinds = {one.kind for one in usage.pressing(node.node, node.node.crowds)}
    assert kinds == {LIMIT, BUFFER}


def test_schemas_in_conflict_are_no_conflicts_of_the_agents(apart):
    """They are listed by ``schema show``, and by ``conflicts`` for who asks for reserved keys."""
    for name, policy in (("a", "max"), ("b", "min")):
        apart[name].agent().do("schema_set", pattern="k", policy=policy)
    apart.link("a", "b")
    apart.run(1)
    status = apart["a"].node.status()
    assert status["spaces"][0]["siblings"] == 0
    assert status["counters"]["conflicts"] == 0
    assert apart["a"].agent().ask("schemas", pattern="k")["items"][0]["siblings"] == 1
