"""Each operation's requests, what their replies mean, and what the session has read by them; no sockets."""

import datetime as dt

import msgpack
import pytest

from crdtsync.client.operations import writes
from crdtsync.client.operations.batch import Batch
from crdtsync.client.operations.keys import Operations
from crdtsync.client.operations.listings import Selection
from crdtsync.client.protocol.steps import Compute, Exchange, Pause
from crdtsync.client.session.request_context import Write
from crdtsync.client.values.results import Entry
from crdtsync.errors import InvalidRequest, InvalidValue, KindMismatch, StaleRead, VersionMismatch
from crdtsync.wire.tokens import Version, encode_version

T = 30.0
WROTE = {"token": "c1.t", "version": "v1.own", "siblings": 0, "replaced": None, "behind": False}


def packed(value):
    return msgpack.packb(value)


def got(value, version="v1.a", siblings=0):
    return {"value": packed(value), "kind": "register", "version": version, "siblings": siblings}


def an_entry(value, version="v1.all", siblings=()):
    return {
        "key": "k",
        "kind": "register",
        "value": packed(value),
        "version": version,
        "dot": "1.1.0",
        "agent": "me",
        "node": "host-a",
        "time": 1_700_000_000_123,
        "confidence": 0.5,
        "meta": packed({"why": "x"}),
        "ttl": 1500,
        "siblings": [{"kind": "register", "value": packed(s), "dot": f"2.{s}.0", "agent": "b"} for s in siblings],
    }


def current(refused: pytest.ExceptionInfo[VersionMismatch]) -> Entry:
    assert isinstance(refused.value.current, Entry)
    return refused.value.current


@pytest.fixture
def operations():
    return Operations()


def set_value(operations, key, value, *, w=None, timeout_s=T, **options):
    return operations.send(writes.set_value(operations, key, value, **options), w, timeout_s)


def delete(operations, key, seen=...):
    return operations.send(writes.delete(operations, key, seen), None, T)


# -- reads ------------------------------------------------------------------------------------------------------


def test_get_gives_the_value_and_remembers_its_version(operations, play):
    assert play(operations.get("k", None, None, T), got({"a": [1]})).result == {"a": [1]}
    assert operations.memory.seen("k") == "v1.a"


def test_get_of_an_absent_key_gives_the_default_and_remembers_the_absence(operations, play):
    assert play(operations.get("k", "default", None, T), None).result == "default"
    assert operations.memory.seen("k") == "?"


def test_only_a_read_that_waits_for_a_token_carries_a_timeout(operations, play):
    assert play(operations.get("k", None, None, T), None).arguments == {"key": "k"}
    waiting = play(operations.get("k", None, "c1.x", 1.5), None)
    assert waiting.arguments == {"key": "k", "after": "c1.x", "timeout": 1500}
    assert waiting.steps[0].waits


def test_entry_gives_all_that_is_known_and_covers_the_siblings(operations, play):
    entry = play(operations.entry("k", None, T), an_entry("x", siblings=[1, 2])).result
    assert (entry.key, entry.value, entry.version, entry.ttl, entry.meta) == ("k", "x", "v1.all", 1.5, {"why": "x"})
    assert entry.time == dt.datetime(2023, 11, 14, 22, 13, 20, 123000, tzinfo=dt.UTC)
    assert [sibling.value for sibling in entry.siblings] == [1, 2]
    assert operations.memory.seen("k") == "v1.all"
    with pytest.raises(AttributeError):
        entry.value = 1


def test_keys_are_fetched_page_by_page_and_do_not_count_as_read(operations, play):
    pages = [
        {
            "items": [["a", "register", None, "v", 0], ["b", "register", None, "v", 0]],
            "more": True,
            "token": "c1.first",
        },
        {"items": [["c", "register", None, "v", 0]], "more": False, "token": "c1.later"},
    ]
    played = play(operations.keys(Selection(), None, T), *pages)
    assert played.result == ["a", "b", "c"]
    assert played.result.token == "c1.first"  # so that a watch misses nothing that came between the pages
    assert [step.arguments.get("start") for step in played.steps] == [None, "b"]
    assert operations.memory.seen("a") is None


def test_keys_stop_at_the_limit(operations, play):
    page = {
        "items": [["a", "register", None, "v", 0], ["b", "register", None, "v", 0]],
        "more": True,
        "token": "c1.first",
    }
    played = play(operations.keys(Selection("p", "0", 2), None, T), page)
    assert played.result == ["a", "b"]
    assert played.arguments == {"prefix": "p", "start": "0", "limit": 2, "values": False}


def test_items_read_what_a_scan_leaves_out(operations, play):
    rows = [["a", "register", packed(None), "v1.a", 1], ["l", "log", None, "v1.l", 0], ["gone", "log", None, "v", 0]]
    replies = {"items": rows, "more": False, "token": "c1.later"}, got([1, 2], "v1.l2"), None
    items = play(operations.items(Selection(), None, T), *replies).result
    assert (items, items.token) == ([("a", None), ("l", [1, 2])], "c1.later")
    assert operations.memory.seen("a") == "v1.a"
    assert operations.memory.seen("l") == "v1.l2"


LEFT_OUT = object()


def listed(key, kind="register", siblings=(), value=LEFT_OUT):
    """An entry of a scan; ``siblings`` are their values."""
    fields = {**an_entry(value if value is not LEFT_OUT else 0, f"v1.{key}"), "key": key, "kind": kind}
    if value is LEFT_OUT:
        fields["value"] = None
    shown = [None if one is LEFT_OUT else packed(one) for one in siblings]
    return {**fields, "siblings": [{"kind": "register", "value": one, "dot": "2.1.0"} for one in shown]}


def test_entries_are_whole_and_come_in_few_requests(operations, play):
    pages = [
        {"items": [listed("a", value=1), listed("b", value=None, siblings=[2])], "more": True, "token": "c1.first"},
        {"items": [listed("c", value=3)], "more": False, "token": "c1.later"},
    ]
    played = play(operations.entries(Selection("p"), None, T, values=True), *pages)
    first = played.result[0]
    assert (first.key, first.kind, first.value, first.agent, first.ttl) == ("a", "register", 1, "me", 1.5)
    assert [len(entry.siblings) for entry in played.result] == [0, 1, 0]
    assert played.result.token == "c1.first"
    assert [step.arguments.get("start") for step in played.steps] == [None, "b"]
    assert played.steps[0].arguments == {"prefix": "p", "limit": 1000, "values": True, "entries": True}
    assert [operations.memory.seen(key) for key in "abc"] == ["v1.a", "v1.b", "v1.c"]


def test_entries_count_as_read_only_if_all_their_values_came(operations, play):
    items = [listed("l", "log"), listed("r", value=1, siblings=[LEFT_OUT]), listed("a", value=None)]
    page = {"items": items, "more": False, "token": "c1.x"}
    play(operations.entries(Selection(), None, T, values=True), page)
    assert [operations.memory.seen(key) for key in "lra"] == [None, None, "v1.a"]


def test_entries_without_values_do_not_count_as_read(operations, play):
    page = {"items": [listed("a")], "more": False, "token": "c1.x"}
    assert play(operations.entries(Selection(), None, T, values=False), page).result[0].key == "a"
    assert operations.memory.seen("a") is None


def log_page(start, values, length):
    return {
        "items": [[packed(v), f"1.{v}.0", "me", "n", 0] for v in values],
        "start": start,
        "length": length,
        "version": "v1.log",
        "token": f"c1.{length}",
    }


def test_a_log_is_fetched_page_by_page(operations, play):
    played = play(
        operations.log("l", 0, None, None, None, T, attributes=True), log_page(0, [0, 1], 3), log_page(2, [2], 3)
    )
    assert [(item.index, item.value) for item in played.result] == [(0, 0), (1, 1), (2, 2)]
    assert [step.arguments["start"] for step in played.steps] == [0, 2]
    assert [step.arguments.get("previous") for step in played.steps] == [None, "1.1.0"]
    assert played.result.token == "c1.3"


def test_a_log_goes_on_behind_an_element_that_was_read(operations, play):
    (item,) = play(operations.log("l", 0, None, 1, None, T, attributes=True), log_page(6, [6], 9)).result
    played = play(operations.log("l", item, None, 2, None, T, attributes=True), log_page(3, [7, 8], 5))
    assert played.arguments == {"key": "l", "start": 7, "previous": "1.6.0", "limit": 2, "attributes": True}
    assert [(item.index, item.value) for item in played.result] == [(3, 7), (4, 8)]


def test_the_last_of_a_log_are_counted_from_the_end_and_no_more(operations, play):
    played = play(
        operations.log("l", 0, 3, None, None, T, attributes=True), log_page(7, [7, 8], 10), log_page(9, [9], 11)
    )
    assert [item.value for item in played.result] == [7, 8, 9]
    assert [(step.arguments["start"], step.arguments["limit"]) for step in played.steps] == [(-3, 3), (9, 1)]


def test_a_log_that_is_not_there_is_empty(operations, play):
    absent = play(operations.log("l", 0, None, None, None, T, attributes=True), log_page(0, [], 0)).result
    assert (absent, absent.token) == ([], "c1.0")  # to wait for its first element
    unasked = play(operations.log("l", 0, 0, None, None, T, attributes=True)).result
    assert (unasked, unasked.token) == ([], None)


# -- what a write had seen ----------------------------------------------------------------------------------------


def test_a_write_without_a_read_is_blind_every_time(operations, play):
    for _ in range(2):
        played = play(set_value(operations, "k", 1), WROTE)
        assert played.arguments == {"key": "k", "value": packed(1)}
        assert played.result == "c1.t"


def test_a_write_after_a_read_supersedes_what_was_read_then_what_it_wrote(operations, play):
    play(operations.get("k", None, None, T), got(1))
    assert play(set_value(operations, "k", 2), WROTE).arguments["seen"] == "v1.a"
    assert play(set_value(operations, "k", 3), WROTE).arguments["seen"] == "v1.own"


def test_a_stated_version_is_strict_and_counts_as_read(operations, play):
    first = play(set_value(operations, "k", 1, seen="v1.x"), WROTE)
    assert (first.arguments["seen"], first.arguments["strict"], first.arguments["timeout"]) == ("v1.x", True, 30_000)
    assert play(set_value(operations, "k", 2), WROTE).arguments["seen"] == "v1.own"


def test_seen_none_is_blind_whatever_was_read(operations, play):
    play(operations.get("k", None, None, T), got(1))
    assert "seen" not in play(set_value(operations, "k", 2, seen=None), WROTE).arguments


def test_a_condition_says_what_was_seen(operations, play):
    play(operations.get("k", None, None, T), got(1, "v1.old"))
    conditional = play(set_value(operations, "k", 2, if_version="v1.new"), WROTE).arguments
    assert (conditional["if_version"], conditional["seen"]) == ("v1.new", "v1.new")
    absent = play(set_value(operations, "new", 2, if_absent=True), WROTE).arguments
    assert absent["if_absent"] is True
    assert "seen" not in absent
    assert play(set_value(operations, "new", 3), WROTE).arguments["seen"] == "v1.own"


def test_a_false_condition_hands_over_what_is_there_which_is_a_read(operations, play):
    with pytest.raises(VersionMismatch) as refused:
        play(set_value(operations, "k", 1, if_absent=True), VersionMismatch("no", current=an_entry("theirs")))
    assert current(refused).value == "theirs"
    assert operations.memory.seen("k") == "v1.all"


def test_options_travel_in_the_units_of_the_protocol(operations, play):
    plan = set_value(
        operations, "k", 1, timeout_s=2.0, ttl=dt.timedelta(minutes=1), confidence=0.5, meta={"a": 1}, w="majority"
    )
    arguments = play(plan, WROTE).arguments
    assert arguments["ttl"] == 60_000
    assert arguments["meta"] == packed({"a": 1})
    assert (arguments["w"], arguments["timeout"]) == ("majority", 2000)
    assert "w" not in play(set_value(operations, "k", 1, w=1), WROTE).arguments


def test_a_delete_covers_the_siblings_that_were_there_when_it_was_read(operations, play):
    deleted = {"token": "c1.d", "existed": True}
    assert play(delete(operations, "k"), deleted).arguments == {"key": "k"}
    play(operations.entry("k", None, T), an_entry(1, siblings=[2]))
    assert play(delete(operations, "k"), deleted).arguments == {"key": "k", "seen": "v1.all"}
    assert play(delete(operations, "k"), deleted).arguments == {"key": "k", "seen": "?"}
    play(operations.get("k", None, None, T), got(1, siblings=1))
    assert play(delete(operations, "k"), deleted).arguments == {"key": "k", "seen": got(1)["version"]}
    assert operations.last_token == "c1.d"


def test_a_delete_that_cannot_know_what_it_means_is_refused(operations, play, monkeypatch):
    monkeypatch.setattr(operations.memory, "_keys_max", 1)
    for key in "ab":
        play(operations.get(key, None, None, T), got(1))
    with pytest.raises(StaleRead, match="read it again"):
        play(delete(operations, "a"))
    play(delete(operations, "a", seen=None), {"token": "t", "existed": True})


def test_own_changes_of_a_log_do_not_leave_a_delete_with_an_old_version(operations, play):
    play(operations.get("l", None, None, T), got([1]))
    appended = {"token": "c1.a", "length": 2, "version": "v1.and-own"}
    sent = play(operations.send(writes.append(operations, "l", 2), None, T), appended)
    assert (sent.result, sent.arguments["seen"]) == (2, got([1])["version"])
    play(operations.send(writes.trim(operations, "l", 1), None, T), {"token": "c1.b", "removed": 1, "length": 1})
    assert play(delete(operations, "l"), {"token": "t", "existed": True}).arguments["seen"] == "v1.and-own"


def test_after_an_append_of_unknown_version_a_delete_asks_for_a_new_reading(operations, play):
    play(operations.get("l", None, None, T), got([1]))
    play(operations.send(writes.append(operations, "l", 2), None, T), {"token": "c1.a", "length": 2})
    with pytest.raises(StaleRead):
        play(delete(operations, "l"), {"token": "t", "existed": True})


def test_other_agents_of_a_session_are_named_in_every_request(play):
    operations = Operations({"agent": "critic"})
    assert play(operations.get("k", None, None, T), None).arguments["agent"] == "critic"
    assert play(set_value(operations, "k", 1), WROTE).arguments["agent"] == "critic"


def test_what_a_blind_write_replaced_is_told(operations, play):
    written = play(set_value(operations, "k", 1), {**WROTE, "replaced": an_entry("theirs"), "siblings": 2}).result
    assert (written, written.version, written.siblings, written.behind) == ("c1.t", "v1.own", 2, False)
    assert (written.replaced.value, written.replaced.key) == ("theirs", "k")
    assert play(set_value(operations, "k", 1), WROTE).result.replaced is None


# -- update -----------------------------------------------------------------------------------------------------


def update(operations, function=lambda value: value, **options):
    chosen = {"attempts": 16, "siblings": False, "default": None, "w": None, "options": {}, **options}
    return operations.update("k", function, T, **chosen)


def test_update_writes_only_if_nothing_came_between(operations, play):
    played = play(update(operations), an_entry(1), 2, WROTE)
    read, compute, write = played.steps
    assert (read.operation, compute.argument) == ("entry", 1)
    assert write.arguments == {
        "key": "k",
        "value": packed(2),
        "if_version": "v1.all",
        "seen": "v1.all",
        "timeout": 30_000,
    }
    assert (played.result, played.result.value) == ("c1.t", 2)


def test_update_of_an_absent_key_starts_from_the_default(operations, play):
    _, compute, write = play(update(operations, default=0), None, 1, WROTE).steps
    assert compute.argument == 0
    assert write.arguments == {"key": "k", "value": packed(1), "if_absent": True}


def test_update_supersedes_the_winner_alone(operations, play):
    played = play(update(operations), an_entry(1, siblings=[5]), 2, got(1, "v1.winner", 1), WROTE)
    assert played.steps[1].argument == 1
    assert (played.steps[3].arguments["if_version"], played.steps[3].arguments["seen"]) == ("v1.all", "v1.winner")


def test_update_with_siblings_gets_and_supersedes_them_all(operations, play):
    played = play(update(operations, siblings=True), an_entry(1, siblings=[5, 6]), 2, WROTE)
    assert played.steps[1].argument == [1, 5, 6]
    assert played.steps[2].arguments["seen"] == "v1.all"
    assert play(update(operations, siblings=True), None, 2, WROTE).steps[1].argument == []


def test_update_goes_on_from_what_the_refusal_handed_over_then_steps_back(operations, play):
    def lost(value):
        return VersionMismatch("no", current=an_entry(value))

    replies = [an_entry(1), 0, lost(2), 0, lost(3), 0, lost(4), None, an_entry(5), 0, WROTE]
    steps = play(update(operations), *replies).steps
    assert [type(step) for step in steps] == [
        Exchange,
        Compute,
        Write,
        Compute,
        Write,
        Compute,
        Write,
        Pause,
        Exchange,
        Compute,
        Write,
    ]
    assert [step.argument for step in steps if type(step) is Compute] == [1, 2, 3, 5]


def test_update_gives_up_with_the_last_refusal(operations, play):
    with pytest.raises(VersionMismatch) as refused:
        play(update(operations, attempts=1), an_entry(1), 0, VersionMismatch("no", current=an_entry("theirs")))
    assert current(refused).value == "theirs"
    with pytest.raises(InvalidRequest):
        play(update(operations, attempts=0))


# -- batches ----------------------------------------------------------------------------------------------------


def test_a_batch_is_one_request_and_each_write_gets_its_result(operations, play):
    play(operations.get("k", None, None, T), got(1))
    batch = Batch(operations, None)
    batch.set("k", 2)
    batch.append("l", 3)
    batch.delete("d")
    batch.trim("l", 1)
    results = [{**WROTE}, {"length": 1}, {"existed": False}, {"removed": 4, "length": 1}]
    played = play(batch.commit(T), {"token": "c1.b", "results": results})
    assert played.arguments["ops"] == [
        ("set", {"key": "k", "value": packed(2), "seen": "v1.a"}),
        ("append", {"key": "l", "value": packed(3)}),
        ("delete", {"key": "d"}),
        ("trim", {"key": "l", "keep": 1}),
    ]
    assert played.steps[0].is_write
    assert (batch.token, batch.results) == ("c1.b", ["c1.b", 1, False, 4])
    assert batch.results[0].version == operations.memory.seen("k") == "v1.own"
    with pytest.raises(InvalidRequest):
        batch.set("k", 3)


def test_a_batch_replaces_what_it_wrote_to_a_key_that_was_absent_before(operations, play):
    play(operations.get("k", None, None, T), None)
    batch = Batch(operations, None)
    batch.set("k", 1)
    batch.set("k", 2)
    batch.delete("k")
    batch.set("k", 3)
    batch.set("k", 4, seen="?")
    batch.set("k", 5, seen="v1.x")
    assert [write.arguments.get("seen") for write in batch._writes] == [
        "?",
        encode_version(Version()),  # covers what the batch wrote, and nothing that was there
        encode_version(Version()),
        "?",
        "?",
        "v1.x",
    ]


def test_an_empty_batch_sends_nothing(operations, play):
    assert play(Batch(operations, None).commit(T)).result is None


def test_a_refused_batch_changes_no_memory(operations, play):
    play(operations.get("k", None, None, T), got(1))
    batch = Batch(operations, None)
    batch.set("k", 2, if_version="v1.a")
    batch.append("k2", 1)
    with pytest.raises(KindMismatch):
        play(batch.commit(T), KindMismatch("no"))
    assert operations.memory.seen("k") == "v1.a"
    assert batch.token is None


def test_a_batch_tells_which_condition_was_false(operations, play):
    batch = Batch(operations, None)
    batch.set("k", 2, if_absent=True)
    with pytest.raises(VersionMismatch) as refused:
        play(batch.commit(T), VersionMismatch("no", current=an_entry("theirs")))
    assert (current(refused).key, current(refused).value) == ("k", "theirs")


def test_what_cannot_be_stored_is_refused_before_anything_is_sent(operations, play):
    with pytest.raises(InvalidValue):
        Batch(operations, None).append("k", {1})
    with pytest.raises(InvalidValue):
        play(set_value(operations, "k", 1, meta={"a": object()}))


# -- page by page -----------------------------------------------------------------------------------------------


def rows(*names, more=False):
    return {"items": [[name, "log", None, f"v1.{name}", 0] for name in names], "more": more, "token": "c1.x"}


LONG = {
    "keys": (lambda o: o.keys(Selection(), None, T), [rows("a", more=True), rows("b")]),
    "items": (lambda o: o.items(Selection(), None, T), [rows("a", "b"), got([1]), got([2])]),
    "get_many": (
        lambda o: o.get_many(["a", "b"], None, T), [rows("a") | {"done": 1}, got(1), rows("b") | {"done": 1}, got(2)]
    ),
    "conflicts": (
        lambda o: o.conflicts(Selection(), None, T),
        [{"items": [listed("a", siblings=[1])], "more": False, "token": "c1.x"}, an_entry(1, siblings=[2])],
    ),
    "log": (
        lambda o: o.log("l", 0, None, None, None, T, attributes=True), [log_page(0, [0], 2), log_page(1, [1], 2)]
    ),
    "members": (
        lambda o: o.members("s", None, None, T), [log_page(0, [0], 2), log_page(1, [1], 2)]
    ),
    "fields": (
        lambda o: o.fields("m", None, None, None, T),
        [log_page(0, [], 2) | {"items": [["f", packed(1), "1.1.0", "me", "n", 0]], "more": more} for more in (1, 0)],
    ),
    "delete_prefix": (
        lambda o: o.delete_prefix("p", None, T),
        [rows("pa", more=True), {"results": [{"existed": True}], "token": "c1.x"}, rows()],
    ),
    "bring_back": (
        lambda o: o.bring_back(None, T), [{"written": 1, "left": 0, "more": more, "token": "c1.x"} for more in (1, 0)]
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LONG)
def test_the_time_limit_is_for_each_request_of_what_takes_many(operations, play, name):
    """On a busy host 100 pages may take longer together than one may."""
    plan, replies = LONG[name]
    played = play(plan(operations), *replies)
    assert len(played.steps) == len(replies)
    assert played.is_each_timed_anew
