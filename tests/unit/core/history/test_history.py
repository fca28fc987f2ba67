"""History tells who wrote what, having seen what, and what became of it: on every node that was there."""

from __future__ import annotations

from typing import Any

import pytest

from crdtsync.causality import Hlc, hlc_ms
from crdtsync.core.background.retention_caps import Caps
from crdtsync.core.history import removal_reason
from crdtsync.core.interface import Tick
from crdtsync.core.kinds.seen import describe_seen
from crdtsync.core.reads import history_scan, key_history
from crdtsync.core.reads.sliced import LongReads
from crdtsync.errors import NoSpace
from crdtsync.wire.change import Op, value_hash
from crdtsync.wire.codec import pack, unpack
from crdtsync.wire.kinds import Kind
from crdtsync.wire.limits import KEY_SIBLINGS_MAX
from crdtsync.wire.tokens import Version, decode_dot, encode_version
from tests.fleet.agent import Refusal
from tests.fleet.editor import Editor
from tests.fleet.fleet import fleet_of


def history(session: Any, key: str = "k", **args: Any) -> list[Any]:
    """All of a key's history, page by page."""
    items: list[Any] = []
    place: dict[str, Any] = {}
    while True:
        page = session.ask("history", key=key, **args, **place)
        items += page["items"]
        if page["before"] is None:
            return items
        place = {"before": page["before"]}


def told(session: Any, key: str = "k", **args: Any) -> list[tuple[Any, str | None]]:
    """Values and fates, newest first."""
    return [(unpack(item["value"]), item["fate"]) for item in history(session, key, **args)]


def test_overwritten_by_one_who_had_read_it(node):
    ann, bob = node.agent("ann"), node.agent("bob")
    first = ann.set("k", 1)
    second = bob.set("k", 2, seen=ann.version("k"))
    new, old = history(bob)
    assert (unpack(new["value"]), new["agent"], new["node"], new["fate"]) == (2, "bob", "a", "live")
    assert new["seen"] == [old["dot"]]
    assert new["removed_by"] is None
    assert "blind" not in new
    assert (unpack(old["value"]), old["agent"], old["fate"], old["seen"]) == (1, "ann", "replaced", [])
    removed_by = {"op": "set", "dot": new["dot"], "agent": "bob", "node": "a", "time": new["time"]}
    assert old["removed_by"] == removed_by
    assert (old["token"], new["token"]) == (first["token"], second["token"])


def test_overwritten_by_one_who_had_not(node):
    ann, bob = node.agent("ann"), node.agent("bob")
    ann.set("k", 1)
    bob.set("k", 2)
    new, old = history(bob)
    assert (new["seen"], new["blind"]) == ([], [old["dot"]])
    assert old["fate"] == "lost"
    assert told(bob, lost=True) == [(1, "lost")]


def test_an_author_knows_its_own_values(node):
    ann = node.agent("ann")
    for n in range(3):
        ann.set("k", n)
    assert told(ann) == [(2, "live"), (1, "replaced"), (0, "replaced")]
    assert told(ann, lost=True) == []


def test_deleted_and_expired(node):
    ann = node.agent("ann")
    ann.set("k", "d")
    ann.delete("k")
    (old,) = history(ann)
    assert (old["fate"], old["removed_by"]["op"], old["removed_by"]["agent"]) == ("deleted", "delete", "ann")
    ann.set("k", "e", ttl=1000)
    node.fleet.pass_time(1.5)
    assert told(ann)[0] == ("e", "expired")
    node.fleet.run(3)
    assert told(ann) == [("e", "expired"), ("d", "deleted")]
    assert history(ann)[0]["removed_by"]["agent"] == "crdtsyncd"


def test_a_value_that_had_expired_when_it_was_overwritten(node):
    ann = node.agent("ann")
    ann.set("k", 1, ttl=1000)
    node.fleet.pass_time(1.5)
    ann.set("k", 2)
    assert told(ann) == [(2, "live"), (1, "expired")]


def test_a_blind_write_over_one_that_lives_and_one_that_has_expired(node):
    ann, bob = node.agent("ann"), node.agent("bob")
    ann.set("k", "short", ttl=1000)
    ann.set("k", "long", seen="?")
    node.fleet.pass_time(1.0)
    bob.set("k", "blind")
    assert told(bob) == [("blind", "live"), ("long", "lost"), ("short", "expired")]


def apart_then_joined(fleet: Any, key: str = "k") -> Any:
    """Three siblings: a, b and c, of which b read and replaced the first value."""
    fleet["a"].agent("base").set(key, "base")
    fleet.link("a", "b")
    fleet.link("a", "c")
    fleet.sync()
    for wire in list(fleet.wires):
        wire.close()
    for name in "abc":
        agent = fleet[name].agent(name)
        agent.set(key, name, **({"seen": agent.version(key)} if name == "b" else {"seen": "?"}))
        fleet.pass_time(0.01)
    for pair in ("ab", "bc", "ca"):
        fleet.link(*pair)
    fleet.run(2)
    return fleet["a"].agent("judge")


def test_siblings_say_what_each_had_seen(apart):
    judge = apart_then_joined(apart)
    by_value = {unpack(item["value"]): item for item in history(judge)}
    base = by_value["base"]["dot"]
    assert {value: item["seen"] for value, item in by_value.items()} == {"base": [], "a": [], "b": [base], "c": []}
    assert by_value["base"]["fate"] == "replaced"
    (listed,) = judge.ask("scan", entries=True, conflicts=True, values=True)["items"]
    for entry in (listed, judge.ask("entry", key="k")):
        seen = {unpack(one["value"]): one["seen"] for one in (entry, *entry["siblings"])}
        assert seen == {"a": [], "b": [base], "c": []}


@pytest.mark.parametrize("way,lost", [("take", ["c", "a"]), ("value", ["b", "a"]), ("same value", ["c", "b"])])
def test_resolving_keeps_one_and_loses_the_others(apart, way, lost):
    judge = apart_then_joined(apart)
    dots = {unpack(item["value"]): item["dot"] for item in history(judge)}
    chosen = {
        "take": {"take": dots["b"]},
        "value": {"value": pack("new")},
        "same value": {"value": pack("a")},
    }
    judge.do("resolve", key="k", **chosen[way])
    apart.run(2)
    for name in "abc":
        session = apart[name].agent("reader")
        assert [value for value, _ in told(session, lost=True)] == lost, name
        items = history(session)
        assert (items[0]["op"], items[0]["fate"]) == ("resolve", "live")
        assert set(items[0]["seen"]) == {dots[value] for value in "abc"}
        assert [item["removed_by"]["op"] for item in items[1:-1]] == ["resolve"] * 3


def test_where_none_is_kept_the_one_lives_on_that_readers_were_shown(node):
    """By the read policy, that is: here the surest, not the newest."""
    ann = node.agent("ann")
    ann.do("schema_set", pattern="k", policy="confidence")
    for value, confidence in (("middling", 0.8), ("sure", 0.9), ("unsure", 0.7)):
        ann.set("k", value, confidence=confidence, seen="?")
    ann.do("resolve", key="k", value=pack("new"))
    assert told(ann) == [("new", "live"), ("unsure", "lost"), ("sure", "replaced"), ("middling", "lost")]


def test_conflict_events_say_it_too(apart):
    apart.link("a", "b")
    watcher = apart["b"].agent("watcher")
    watcher.ask("watch", prefix="")
    first = apart["a"].agent("ann").set("k", 1)
    apart.sync()
    second = apart["b"].agent("bob").set("k", 2, seen="?")
    apart.run(1)
    (event,) = [event for event in watcher.told() if event["event"] == "conflict"]
    assert event["seen"] == []
    assert event["siblings"][0]["seen"] == []
    assert first["token"] != second["token"]


def test_kinds_of_many_parts(node):
    ann, bob = node.agent("ann"), node.agent("bob")
    ann.do("add", key="set", value=pack("x"))
    bob.do("add", key="set", value=pack("x"))
    bob.do("discard", key="set", value=pack("x"))
    assert told(ann, "set") == [("x", "deleted"), ("x", "replaced")]
    assert [item["removed_by"]["op"] for item in history(ann, "set")] == ["discard", "add"]
    ann.do("incr", key="n", by=3)
    bob.do("incr", key="n", by=4)
    bob.do("reset", key="n")
    ops = [(item["op"], item["value"] and unpack(item["value"]), item["fate"]) for item in history(ann, "n")]
    assert ops == [("reset", None, "live"), ("incr", 7, "live"), ("incr", 3, "replaced")]
    ann.do("merge", key="map", fields={"f": pack(1), "g": pack(2)})
    bob.do("merge", key="map", fields={"f": pack(3)})
    bob.do("drop", key="map", field="g")
    assert [(item["field"], unpack(item["value"]), item["fate"]) for item in history(ann, "map")] == [
        ("f", 3, "live"), ("g", 2, "deleted"), ("f", 1, "lost"),
    ]  # fmt: skip


def test_fields_that_are_resolved_together_each_take_the_place_of_their_own_values(node):
    ann = node.agent("ann")
    for value in (1, 2):
        ann.do("merge", key="map", fields={"f": pack(value), "g": pack(10 * value)}, seen="?")
    entry = ann.ask("entry", key="map")
    ann.do("resolve", key="map", take=entry["dot"], seen=entry["version"])
    told_of = [(item["field"], unpack(item["value"]), item["fate"]) for item in history(ann, "map")]
    assert told_of[:2] == [("g", 20, "live"), ("f", 2, "live")]
    assert sorted(told_of[2:]) == [("f", 1, "lost"), ("f", 2, "replaced"), ("g", 10, "lost"), ("g", 20, "replaced")]
    by_field = {field: {item["dot"] for item in history(ann, "map")[2:] if item["field"] == field} for field in "fg"}
    assert {item["field"]: {*item["seen"]} for item in history(ann, "map")[:2]} == by_field


def test_texts_that_are_joined_and_texts_of_which_one_is_taken(node):
    for way, fates in (("merge", {"replaced"}), ("take", {"replaced", "lost"})):
        ann, bob = Editor(node, key=way, name="ann"), Editor(node, key=way, name="bob")
        ann.append("one")
        (other,) = bob.replica.edit([(0, 0, "two")])
        node.agent().do("text_apply", key=way + "/other", update=other)
        marker = Op(way, None, Kind.TEXT, pack([None, other]), value_hash(pack([None, other])), (), None)
        node.node.applied(node.replica, [node.replica.commit([marker], "bob", None, node.now.wall_ms)])
        node.turn()
        entry = ann.session.ask("entry", key=way)
        assert len(entry["siblings"]) == 1
        args = {"merge": True} if way == "merge" else {"take": entry["dot"]}
        ann.session.do("resolve", key=way, seen=entry["version"], **args)
        items = history(ann.session, way)
        assert (items[0]["op"], items[0]["fate"]) == ("resolve", "live")
        assert {item["fate"] for item in items[1:]} == fates


def test_a_log_and_its_trim(node):
    ann = node.agent("ann")
    for n in range(5):
        ann.append("log", n)
    ann.do("trim", key="log", keep=2)
    fates = [(4, "live"), (3, "live"), (2, "trimmed"), (1, "trimmed"), (0, "trimmed")]
    assert told(ann, "log") == fates
    assert told(ann, "log", limit=2) == fates
    assert {item["removed_by"]["op"] for item in history(ann, "log")[2:]} == {"trim"}


def test_what_is_written_and_replaced_in_one_batch(node):
    ann = node.agent("ann")
    ann.do("batch", ops=[["set", {"key": "k", "value": pack(n)}] for n in range(3)])
    assert told(ann) == [(2, "live"), (1, "replaced"), (0, "replaced")]


def test_an_answer_in_the_same_turn_misses_nothing(node):
    ann, bob = node.agent("ann"), node.agent("bob")
    ann.set("k", 1)
    bob.write("set", key="k", value=pack(2), seen=ann.version("k"))
    request = bob.send("history", key="k")
    node.turn()
    new, old = bob.result(request)["items"]
    assert (unpack(new["value"]), unpack(old["value"]), old["fate"], new["seen"]) == (2, 1, "replaced", [old["dot"]])


def test_pages_meet_without_gap_or_repeat(node, monkeypatch):
    ann = node.agent("ann")
    for n in range(20):
        ann.set("k", n)
    whole = [item["dot"] for item in history(ann)]
    assert [item["dot"] for item in history(ann, limit=3)] == whole
    monkeypatch.setattr(key_history, "HISTORY_ROWS_MAX", 4)
    assert [item["dot"] for item in history(ann)] == whole
    monkeypatch.setattr(key_history, "HISTORY_BYTES_MAX", 1)
    assert [item["dot"] for item in history(ann)] == whole


def test_it_survives_a_restart(node):
    ann, bob = node.agent("ann"), node.agent("bob")
    ann.set("k", 1)
    bob.set("k", 2)
    bob.delete("k")
    bob.set("k", 3, ttl=5000)
    before = history(bob)
    node.restart()
    assert history(node.agent("bob")) == before


def test_it_says_where_it_is_cut():
    with fleet_of("a", caps=Caps(history_bytes_max=1500)) as fleet:
        ann = fleet["a"].agent("ann")
        ann.set("k", 0)
        assert ann.ask("history", key="k")["complete"]
        assert ann.ask("history", key="k")["since"] is None
        for n in range(1, 40):
            ann.set("k", n)
        fleet.run(5)
        page = ann.ask("history", key="k")
        assert not page["complete"]
        assert page["since"] <= page["items"][-1]["removed_by"]["time"]
        values = [unpack(item["value"]) for item in page["items"]]
        assert values == [*range(39, 39 - len(values), -1)]
        assert 1 < len(values) < 40
        assert all(item["seen"] for item in page["items"]) or page["items"][-1]["blind"]
        fleet["a"].restart()
        assert fleet["a"].agent("bob").ask("history", key="k")["since"] == page["since"]


@pytest.mark.parametrize("before", ["", "1", "x.1.2.3", "1.2.3", f"{1 << 64}.1.1.1", 7, "1.2.3.4.5"])
def test_a_malformed_place_is_refused(node, before):
    with pytest.raises(Refusal):
        node.agent().ask("history", key="k", before=before)


# -- many keys ---------------------------------------------------------------------------------------------------


def newest(session: Any, prefix: str = "", **args: Any) -> list[Any]:
    request = session.send("history", prefix=prefix, **args)
    while request not in session.replies:
        session.machine.turn()
    return list(session.result(request)["items"])


def brief(items: list[Any]) -> list[tuple[str, Any, str | None]]:
    return [(item["key"], item["value"] and unpack(item["value"]), item["fate"]) for item in items]


@pytest.mark.parametrize("slice_rows", [1, 3, 1000])
def test_the_newest_of_many_keys(node, monkeypatch, slice_rows):
    monkeypatch.setattr(history_scan, "SCAN_SLICE_ROWS", slice_rows)
    monkeypatch.setattr(history_scan, "ROWS_AT_ONCE_MAX", slice_rows)
    ann, bob = node.agent("ann"), node.agent("bob")
    for n in range(4):
        for key in ("p/a", "q", "p/b"):
            ann.set(key, n)
    bob.set("p/b", "blind")
    bob.delete("p/a")
    ann.set("p/c", "x", ttl=10)
    node.fleet.pass_time(0.05)
    wanted = [("p/c", "x", "expired"), ("p/b", "blind", "live"), ("p/b", 3, "lost"), ("p/a", 3, "deleted")]
    assert brief(newest(ann, "p/", limit=4)) == wanted
    everything = [("p/b", "blind"), *[(key, n) for n in (3, 2, 1, 0) for key in ("p/b", "q", "p/a")]]
    assert [one[:2] for one in brief(newest(ann))][1:] == everything
    assert brief(newest(ann, "p/", lost=True)) == [("p/b", 3, "lost")]


def test_an_answer_is_read_some_rows_a_turn(node, monkeypatch):
    """1,000 at once took 40 ms."""
    monkeypatch.setattr(history_scan, "ROWS_AT_ONCE_MAX", 7)
    ann = node.agent("ann")
    for n in range(60):
        ann.set(f"k{n % 10}", n)
    node.store.settle()
    read, dead_by_id, row_now = [0], node.store.dead_by_id, history_scan.HistoryScan._row_now

    def counted(ids: list[int], bytes_max: int) -> Any:
        read[0] += len(ids)
        return dead_by_id(ids, bytes_max)

    def counted_now(scan: history_scan.HistoryScan, entry: Any) -> Any:
        read[0] += 1
        return row_now(scan, entry)

    monkeypatch.setattr(node.store, "dead_by_id", counted)
    monkeypatch.setattr(history_scan.HistoryScan, "_row_now", counted_now)
    request = ann.send("history", prefix="")
    per_turn = []
    while request not in ann.replies:
        before = read[0]
        node.turn()
        per_turn.append(read[0] - before)
    assert max(per_turn) == 7 < sum(per_turn) == 60
    assert [unpack(item["value"]) for item in ann.result(request)["items"]] == [*reversed(range(60))]


def test_values_that_are_too_much_for_one_answer_are_cut(node, monkeypatch):
    monkeypatch.setattr(history_scan, "SCAN_BYTES_MAX", 2500)
    ann = node.agent("ann")
    for n in range(5):
        ann.set(f"k{n % 3}", str(n) * 1000)
    ann.delete("k1")
    node.store.settle()
    items = newest(ann)
    assert [(item["key"], item["value"] and unpack(item["value"])[0], item.get("cut")) for item in items] == [
        ("k1", "4", None),
        ("k0", "3", None),
        ("k2", None, True),
        ("k1", None, True),
        ("k0", None, True),
    ]


def test_what_dies_while_others_are_looked_at_is_shown_dead(node, monkeypatch):
    monkeypatch.setattr(history_scan, "SCAN_SLICE_ROWS", 1)
    ann = node.agent("ann")
    for key in ("a", "b", "c"):
        ann.set(key, key)
    request = ann.send("history", prefix="")
    node.turn()
    ann.delete("a")
    ann.delete("c")
    while request not in ann.replies:
        node.turn()
    page = ann.result(request)
    assert brief(page["items"]) == [("c", "c", "deleted"), ("b", "b", "live"), ("a", "a", "deleted")]
    assert not page["more"]


def test_a_commit_that_fails_meanwhile_changes_nothing(node, monkeypatch):
    monkeypatch.setattr(history_scan, "SCAN_SLICE_ROWS", 1)
    ann = node.agent("ann")
    for key in ("a", "b", "c"):
        ann.set(key, key)
    request = ann.send("history", prefix="")
    node.turn()
    ann.write("set", key="b", value=pack("refused"))
    node.refuse(NoSpace("the disk is full"))
    while request not in ann.replies:
        node.turn()
    assert [one[1] for one in brief(ann.result(request)["items"])] == ["c", "b", "a"]
    again = ann.send("history", prefix="")
    assert node.node.dispatcher.long_reads.reload({}) == [(ann.conn, again)]


def test_a_scan_that_fails_is_answered_and_forgotten(node, monkeypatch):
    ann = node.agent("ann")
    ann.set("k", 1)
    request = ann.send("history", prefix="")
    monkeypatch.setattr(history_scan.HistoryScan, "advance", lambda self: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        node.node.ready()
    node.deliver(node.node.step_failed(Tick(), "ZeroDivisionError"))
    with pytest.raises(Refusal, match="failed inside the daemon"):
        ann.result(request)
    assert len(node.node.dispatcher.long_reads) == 0


@pytest.mark.parametrize("damaged", [b"\x93\x01", pack([1]), pack({0: 5}), pack("text"), pack({9: []})])
def test_of_a_damaged_note_all_else_is_told(node, damaged):
    assert describe_seen(node.replica, damaged)["seen"] is None


def test_reserved_keys_are_left_out(node):
    ann = node.agent("ann")
    ann.set("k", 1)
    op = Op("_schema/k", None, Kind.REGISTER, pack(1), value_hash(pack(1)), (), None)
    node.node.applied(node.replica, [node.replica.commit([op], "x", None, node.now.wall_ms)])
    node.turn()
    assert [item["key"] for item in newest(ann)] == ["k"]
    assert [item["key"] for item in newest(ann, "_schema/")] == ["_schema/k"]


def test_an_agent_that_leaves_or_asks_too_much(node):
    ann = node.agent("ann")
    requests = [ann.send("history", prefix="") for _ in range(LongReads.PER_AGENT_MAX + 1)]
    node.turn()
    with pytest.raises(Refusal, match="waiting already"):
        ann.result(requests[-1])
    ann.close()
    assert len(node.node.dispatcher.long_reads) == 0


@pytest.mark.parametrize("args", [{"prefix": 1}, {"prefix": "", "key": "k"}, {"prefix": "", "limit": 0}])
def test_malformed_requests_for_many_keys(node, args):
    with pytest.raises(Refusal):
        node.agent().ask("history", **args)


# -- texts -------------------------------------------------------------------------------------------------------


def test_edits_of_a_text_by_one_author_are_one(node, monkeypatch):
    ann, bob = Editor(node, name="ann"), Editor(node, name="bob")
    for editor, times in ((ann, 5), (bob, 1), (ann, 3)):
        editor.read()
        for _ in range(times):
            editor.append("x")
            node.fleet.pass_time(0.01)
    wanted = [("ann", 3, "live"), ("bob", 1, "replaced"), ("ann", 5, "replaced")]
    found = history(ann.session, "t")
    with monkeypatch.context() as patch:
        patch.setattr(key_history, "HISTORY_ROWS_MAX", 2)
        assert sum(item["edits"] for item in history(ann.session, "t")) == 9
    assert [(item["agent"], item["edits"], item["fate"]) for item in found] == wanted
    assert found[0]["began"] < found[0]["time"]
    assert found[0]["seen"] == [found[1]["dot"]]
    assert found[1]["seen"] == [found[2]["dot"]]
    assert newest(ann.session) == found


# -- every node says the same ------------------------------------------------------------------------------------------


def two_values_on(fleet: Any) -> tuple[Any, Any]:
    """Hosts a and b, which know the siblings 1 and 2 of a key and no longer hear of each other; their agents."""
    ann, bob = fleet["a"].agent("ann"), fleet["b"].agent("bob")
    ann.set("k", 1, seen="?")
    ann.set("k", 2, seen="?")
    wire = fleet.link("a", "b")
    fleet.run(2)
    wire.close()
    return ann, bob


def fates(agent: Any) -> dict[Any, Any]:
    """The end of each value, by whom."""
    removed_by = {unpack(item["value"]): item["removed_by"] for item in history(agent)}
    return {value: (fate, removed_by[value] and removed_by[value]["agent"]) for value, fate in told(agent)}


def test_why_a_field_went_is_known_without_a_look_at_the_rest_of_the_change(node, monkeypatch):
    """Of each field that a merge wrote over, all was asked that only a resolution or a time to live can change."""
    asked: list[Hlc] = []

    def asking(hlc: Hlc) -> int:
        asked.append(hlc)
        return hlc_ms(hlc)

    monkeypatch.setattr(removal_reason, "hlc_ms", asking)
    ann, ben = node.agent("ann"), node.agent("ben")
    for agent in (ann, ben):
        agent.do("merge", key="map", fields={f"f{n}": pack(agent.name) for n in range(50)})
    assert asked == []
    lost = [item for item in ann.ask("history", key="map", limit=100)["items"] if item["fate"] == "lost"]
    assert len(lost) == 50


def test_what_is_lost_is_decided_where_it_is_written(apart):
    """Meanwhile bob's host has removed one of the values: the other one is no less lost than where ann wrote."""
    ann, bob = two_values_on(apart)
    whole = ann.ask("entry", key="k")["version"]
    bob.set("k", "bob's", seen=bob.version("k"))
    ann.set("k", "ann's", seen=whole)
    apart.link("a", "b")
    apart.run(2)
    assert fates(ann)[1] == fates(bob)[1] == ("lost", "ann")


def test_what_is_lost_follows_from_the_policy_that_its_author_knew(apart):
    """Bob's host has another read policy by then, by which readers were shown the other value."""
    ann, bob = two_values_on(apart)
    bob.do("schema_set", pattern="k", policy="min")
    ann.set("k", "ann's", seen=ann.ask("entry", key="k")["version"])
    apart.link("a", "b")
    apart.run(2)
    assert (fates(ann)[1], fates(ann)[2]) == (("lost", "ann"), ("replaced", "ann"))
    assert fates(ann) == fates(bob)


def test_what_a_batch_loses_of_its_own_is_said_too(apart):
    ann, bob = two_values_on(apart)
    whole = ann.ask("entry", key="k")["version"]
    ops = [
        ["set", {"key": "k", "value": pack("mine"), "seen": "?"}],
        ["set", {"key": "k", "value": pack("ann's"), "seen": whole}],
    ]
    ann.do("batch", ops=ops)
    bob.set("k", "bob's", seen=bob.version("k"))
    apart.link("a", "b")
    apart.run(2)
    for value in (1, "mine"):
        assert fates(ann)[value] == fates(bob)[value]


def test_the_marks_of_a_change_do_not_depend_on_who_reads_it(apart):
    """A host that holds one value alone of those that were crowded out says lost, as its author does."""
    ann, bob = apart["a"].agent("ann"), apart["b"].agent("bob")
    for n in range(KEY_SIBLINGS_MAX):
        ann.set("k", n, seen="?")
    wire = apart.link("a", "b")
    apart.run(2)
    wire.close()
    ann.set("k", "more", seen="?")
    newer = [decode_dot(part["dot"]) for part in bob.ask("entry", key="k")["siblings"][:-1]]
    bob.set("k", "bob's", seen=encode_version(Version((decode_dot(bob.ask("entry", key="k")["dot"]), *newer))))
    assert bob.values("k") == ["bob's", 0]
    apart.link("a", "b")
    apart.run(2)
    assert fates(ann)[0] == fates(bob)[0] == ("lost", "ann")
