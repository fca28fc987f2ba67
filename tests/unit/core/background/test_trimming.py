"""What is kept of the past: the log and the history within their caps, floors that say where they begin, and reads of
what is older.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from pycrdt import Doc, Text

from crdtsync.causality import Dot, VersionVector, Writer, covers
from crdtsync.core.background import trimming
from crdtsync.core.background.retention_caps import Caps
from crdtsync.core.background.trimming import HistoryPlan, changes_due, document_due, history_due
from crdtsync.core.interface import DiskSpace
from crdtsync.core.storage.rows import DocumentSpan, DocumentTrim, OldChange, OldDead, OldRemoval
from crdtsync.errors import NoSpace
from crdtsync.wire.codec import pack, unpack
from tests.fleet.agent import Agent
from tests.fleet.fleet import Fleet, fleet_of
from tests.fleet.host import Host
from tests.unit.daemon.counting import counters, counters_by_sum

DAY_MS = 24 * 3600 * 1000
CAPS = Caps(log_bytes_max=1000, log_age_ms_max=100, history_bytes_max=1000, history_age_ms_max=100)
ANN, BOB = Writer(1), Writer(2)


# -- what goes -----------------------------------------------------------------------------------------------------


def changes(*rows: tuple[int, int]) -> list[OldChange]:
    """``(bytes, time)`` each, at positions 1, 2, 3…"""
    return [OldChange(at, ANN, at, size, time_ms) for at, (size, time_ms) in enumerate(rows, 1)]


@pytest.mark.parametrize(
    "size_bytes, now_ms, pin, count",
    [
        (1000, 50, None, 0),  # all is well
        (1001, 50, None, 1),  # a byte too much: the oldest goes
        (1100, 50, None, 1),
        (1101, 50, None, 2),
        (9999, 50, None, 4),  # more than these rows
        (1000, 100, None, 0),  # just young enough
        (1000, 101, None, 2),  # two of time 0
        (1000, 111, None, 3),
        (1300, 50, 2, 2),  # a snapshot needs what comes after the second
        (2000, 50, 0, 0),
        (2001, 50, 0, 1),  # but not at any price
        (1000, 999, 1, 1),
    ],
)
def test_which_changes_go(size_bytes: int, now_ms: int, pin: int | None, count: int) -> None:
    rows = changes((100, 0), (100, 0), (100, 10), (100, 20))
    assert changes_due(rows, size_bytes, CAPS, now_ms, pin) == count


def test_an_entry_goes_no_later_than_what_removed_it() -> None:
    dead = [OldDead(1, 5, 100, 0), OldDead(2, 5, 100, 0), OldDead(3, 7, 100, 0)]
    removals = [
        OldRemoval(1, 4, ANN, 4, 100, 0),  # removed nothing here
        OldRemoval(2, 5, ANN, 5, 100, 0),
        OldRemoval(3, 6, BOB, 1, 100, 0),
        OldRemoval(4, 7, BOB, 2, 100, 0),
    ]
    plans = [history_due(dead, removals, 900 + 100 * over, CAPS, 0, rows_max=10) for over in range(9)]
    assert plans == [
        HistoryPlan(None, 0, {}),
        HistoryPlan(None, 0, {}),
        HistoryPlan(None, 1, {ANN: 4}),
        HistoryPlan((5, 1), 1, {ANN: 5}),  # the floor is raised with the first of a change's entries
        HistoryPlan((5, 2), 1, {ANN: 5}),
        HistoryPlan((5, 2), 2, {ANN: 5}),
        HistoryPlan((5, 2), 3, {ANN: 5, BOB: 1}),
        HistoryPlan((7, 3), 3, {ANN: 5, BOB: 2}),
        HistoryPlan((7, 3), 4, {ANN: 5, BOB: 2}),
    ]
    assert history_due(dead, removals, 9999, CAPS, 0, rows_max=3) == HistoryPlan((5, 2), 1, {ANN: 5})
    assert history_due(dead, removals, 0, CAPS, 101, rows_max=10) == HistoryPlan((7, 3), 4, {ANN: 5, BOB: 2})


@pytest.mark.parametrize(
    "first_update, states, pin, trim, needs_state",
    [
        (5, [], None, None, True),  # older than the log, and no state to go on from
        (15, [], None, None, False),
        (None, [3], None, None, False),  # nothing but an old state: that is the document
        (5, [8], None, (8, 8), True),  # what lies between 8 and 10 needs a newer state
        (5, [12], None, (10, 12), False),
        (11, [12], None, None, False),
        (11, [3, 12], None, (10, 12), False),
        (5, [3, 12], 4, None, False),  # the snapshot at 4 reads the state of 3 and edits after it
        (2, [3, 12], 4, (3, 3), False),
        (5, [12], 4, None, False),  # it reads the edits from the beginning
        (5, [3, 12], 12, (10, 12), False),
    ],
)
def test_what_goes_of_a_document(
    first_update: int | None, states: list[int], pin: int | None, trim: tuple[int, int] | None, needs_state: bool
) -> None:
    dot = Dot(ANN, 1, 0)
    plan = document_due(1, DocumentSpan(dot, first_update, states, 20), 10, pin)
    assert plan == (None if trim is None else DocumentTrim(1, *dot, *trim), needs_state)


# -- in a node -----------------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trimming, "SLICE_ROWS", 8)
    monkeypatch.setattr(trimming, "SLICE_ROWS_MAX", 16)

    monkeypatch.setattr(trimming, "SLICE_DOCUMENTS_MAX", 2)
    monkeypatch.setattr(trimming, "SLICE_STATES_MAX", 1)


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    with fleet_of("a", caps=Caps(log_bytes_max=4000, history_bytes_max=4000)) as made:
        yield made


def overwrite(ann: Agent, times: int, key: str = "k") -> None:
    for n in range(times):
        ann.set(key, n)


def floor_of_disk(machine: Host) -> tuple[VersionVector, int, VersionVector]:
    row, *_ = machine.store.spaces()
    return row.floor, row.trimmed_position, row.history_floor


def check(machine: Host) -> dict[str, int]:
    """Memory and disk agree, the counters are exact, and the log holds exactly what the floor does not cover."""
    replica = machine.replica
    assert floor_of_disk(machine) == (replica.floor, replica.trimmed_position, replica.past.floor)
    assert counters(machine.store) == counters_by_sum(machine.store)
    rows = machine.store.log(1, 0, 2**40, 2**30)
    held: dict[int, list[int]] = {}
    for row in rows:
        held.setdefault(row.writer, []).append(row.seq)
    for writer, seq in replica.vector.items():
        assert held.get(writer, []) == [*range(replica.floor.get(writer, 0) + 1, seq + 1)]
    return counters(machine.store)


def test_log_and_history_stay_within_their_caps(fleet: Fleet) -> None:
    a = fleet["a"]
    overwrite(a.agent(), 300)
    assert check(a)["log_changes"] == 300
    fleet.run(3, 0.02)
    sizes = check(a)
    assert 3500 < sizes["log_bytes"] <= 4000
    assert 3500 < sizes["history_bytes"] <= 4000
    assert a.agent().get("k") == 299
    assert a.replica.floor == {a.replica.writer: 300 - sizes["log_changes"]}


def test_large_batches_do_not_outrun_the_trimming_of_history(fleet: Fleet) -> None:
    """What a change adds to the history goes by its operations: 50 values and 50 removals each time, here."""
    a = fleet["a"]
    ann = a.agent()
    sizes = []
    for n in range(150):
        ann.do("batch", ops=[["set", {"key": f"k{i}", "value": pack(n)}] for i in range(50)])
        fleet.run(0.02, 0.02)
        sizes.append(check(a)["history_bytes"])
    batch_bytes = sizes[2] - sizes[1]
    assert max(sizes[75:]) <= 4000 + 3 * batch_bytes


def test_history_goes_while_rows_of_large_commits_are_always_on_their_way(fleet: Fleet) -> None:
    a = fleet["a"]
    ann = a.agent()
    sizes = []
    for n in range(40):
        ann.do("batch", ops=[["set", {"key": f"k{i}", "value": pack(n)}] for i in range(100)])
        fleet.run(0.02, 0.02)
        sizes.append(a.store.log_stats(1)["history_bytes"])
        assert a.store.has_backlog or n < 2
    batch_bytes = 24_000
    assert max(sizes) > 100_000, "it began late"
    assert max(sizes[20:]) <= 4000 + 3 * batch_bytes
    while a.store.backlog_records:
        a.store.bring_some_in()
    fleet.run(5, 0.02)
    assert check(a)["history_bytes"] <= 4000


def test_the_log_keeps_changes_of_which_rows_are_on_their_way(fleet: Fleet) -> None:
    """Their long values are read from them until then."""
    a = fleet["a"]
    ann = a.agent()
    looks = 0
    for n in range(10):
        ann.do("batch", ops=[["set", {"key": f"k{i}", "value": pack(f"{n:05}" * 200)}] for i in range(100)])
        fleet.run(1.1, 1.1)  # the caps are looked at
        missing = a.store.backlog_position
        looks += missing is not None
        assert missing is None or a.replica.trimmed_position < missing
        assert [ann.get(f"k{i}") for i in range(100)] == [f"{n:05}" * 200] * 100
    assert looks > 5


def test_the_caps_are_looked_at_sooner_when_much_comes(fleet: Fleet) -> None:
    a = fleet["a"]
    ann = a.agent()
    fleet.run(1.1, 0.1)
    most_bytes = 0
    for n in range(200):
        ann.set("k", f"{n:010000}")
        fleet.run(0.001, 0.001)
        most_bytes = max(most_bytes, a.store.log_stats(1)["log_bytes"])
    assert most_bytes <= 4000 + trimming.LOOK_BYTES_MIN + 2 * 10_000


def test_what_one_write_has_too_much_goes_soon_after_it(fleet: Fleet) -> None:
    a = fleet["a"]
    ann = a.agent()
    ann.set("k", 1)
    fleet.run(3)
    ann.do("batch", ops=[["set", {"key": f"k{i}", "value": pack("x" * 100)}] for i in range(100)])
    assert check(a)["log_bytes"] > 10_000
    fleet.run(3, 0.02)
    assert check(a)["log_bytes"] == 0


def test_it_goes_in_slices(fleet: Fleet) -> None:
    a = fleet["a"]
    ann = a.agent()
    overwrite(ann, 100)
    lengths = [check(a)["log_changes"]]
    while (due_s := a.node.deadline_s()) is not None and due_s < fleet.now.mono_s + 2:
        fleet.pass_time(due_s - fleet.now.mono_s)
        a.turn()
        lengths.append(check(a)["log_changes"])
    drops = [before - after for before, after in pairwise(lengths)]
    assert 8 <= max(drops) <= 16
    assert sum(drops) > 50
    assert fleet.now.mono_s < 1000 + 5


def test_while_somebody_writes_slices_are_no_more_than_twice_what_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint had kept much, and goes: whoever writes then does not wait until all of that has gone."""
    monkeypatch.setattr(trimming, "SLICE_ROWS", 128)
    monkeypatch.setattr(trimming, "BUSY_SLICE_ROWS", 4)
    with fleet_of("a", caps=Caps(history_bytes_max=10_000)) as fleet:
        a = fleet["a"]
        ann = a.agent()
        ann.do("checkpoint_set", name="before")
        for _ in range(10):
            overwrite(ann, 10)
            fleet.run(1.1, 0.1)
        kept_bytes = check(a)["history_bytes"]
        assert kept_bytes > 20_000
        rows = [history_rows(a)]
        ann.do("checkpoint_set", name="before", remove=True)
        for n in range(500):
            ann.set("k", n)
            fleet.run(0.01, 0.01)
            if n % 100 == 0:
                fleet.run(0.1, 0.01)  # it waits for a processor
            rows.append(history_rows(a) - 2 * (n + 1))
            if a.store.log_stats(1)["history_bytes"] <= 10_000:
                break
        assert len(rows) > 20
        gone = [before - after for before, after in pairwise(rows)]
        assert max(gone) <= 32  # in 50 ms come five values and five removals; idle it is 256
        assert check(a)["history_bytes"] <= 12_000


def history_rows(machine: Host) -> int:
    """Dead entries and removals on disk."""
    store = machine.store
    return len(store.oldest_dead(1, 10**6)) + len(store.oldest_removals(1, 10**6))


def test_what_is_too_old_goes(fleet: Fleet) -> None:
    a = fleet["a"]
    overwrite(a.agent(), 10)
    fleet.run(1)
    assert check(a)["log_changes"] == 10
    fleet.pass_time(7 * DAY_MS / 1000)
    a.agent().set("young", 1)
    fleet.run(2, 0.02)
    assert check(a)["log_changes"] == 1
    assert check(a)["history_bytes"] > 0
    fleet.pass_time(23 * DAY_MS / 1000 + 61)
    fleet.run(2, 0.02)
    assert check(a) == {"log_changes": 0, "log_bytes": 0, "history_bytes": 0, "document_bytes": 0}
    assert a.replica.floor == a.replica.vector
    a.agent().set("new", 1)
    fleet.run(2, 0.02)
    assert check(a)["log_changes"] == 1


def test_after_a_restart_all_is_as_before(fleet: Fleet) -> None:
    a = fleet["a"]
    ann = a.agent()
    overwrite(ann, 100)
    fleet.run(3, 0.02)
    before = a.replica.floor, a.replica.trimmed_position, a.replica.past.floor, a.replica.vector, a.replica.writer
    a.restart()
    check(a)
    assert before == (
        a.replica.floor, a.replica.trimmed_position, a.replica.past.floor, a.replica.vector, a.replica.writer,
    )  # fmt: skip
    again = Agent(a, "agent", ann.client)
    again.number = 49  # long gone from the log
    assert again.do("set", key="k", value=pack("twice"), again=True)["token"]
    assert again.get("k") == 99, "a repeated write was done again"


def test_deps_survive_the_log() -> None:
    """What a node has applied since its own last change it must name in the next, in the log or not."""
    with fleet_of("a", "b", linked=True, caps=Caps(log_bytes_max=500)) as fleet:
        fleet["a"].agent().set("a", 1)
        fleet["b"].agent().set("b", 1)
        fleet.run(1)
        overwrite(fleet["b"].agent(), 20)
        fleet.run(3, 0.02)
        a = fleet["a"]
        assert a.replica.floor[Writer(fleet["b"].replica.writer or 0)] > 10
        a.restart()
        a.agent().set("a", 2)
        (*_, last) = a.store.log(1, 0, 2**40, 2**30)
        (dep,) = a.replica.codec.decode(last.body).deps
        assert (dep.writer, dep.seq) == (fleet["b"].replica.writer, 21)


def test_a_failed_commit_takes_the_floor_back(fleet: Fleet) -> None:
    a = fleet["a"]
    overwrite(a.agent(), 100)
    fleet.pass_time(1.5)
    a.refuse(NoSpace("full"))
    assert a.replica.floor == {}
    check(a)
    a.turn()
    assert a.replica.floor == {}, "tried again at once"
    fleet.run(3, 0.02)
    assert check(a)["log_bytes"] <= 4000


def test_while_there_is_no_room_nothing_goes(fleet: Fleet) -> None:
    a = fleet["a"]
    overwrite(a.agent(), 100)
    a.step(DiskSpace("full"))
    fleet.run(3, 0.02)
    assert check(a)["log_changes"] == 100
    deadline_s = a.node.deadline_s()
    assert deadline_s is None or deadline_s > fleet.now.mono_s
    a.step(DiskSpace(""))
    fleet.run(3, 0.02)
    assert check(a)["log_bytes"] <= 4000


def test_a_pin_holds_the_log_up_to_twice_its_cap(fleet: Fleet) -> None:
    a = fleet["a"]
    ann = a.agent()
    overwrite(ann, 10)
    a.replica.pins.add(5)
    overwrite(ann, 30)
    fleet.run(3, 0.02)
    assert a.replica.trimmed_position == 5
    assert check(a)["log_bytes"] > 4000
    overwrite(ann, 60)
    fleet.run(3, 0.02)
    assert a.replica.trimmed_position > 5
    assert 7500 < check(a)["log_bytes"] <= 8000
    a.replica.pins.clear()
    ann.set("k", 0)
    fleet.run(3, 0.02)
    assert check(a)["log_bytes"] <= 4000


def test_hashes_outlive_the_log_within_bounds(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    a = fleet["a"]
    ann = a.agent()
    overwrite(ann, 100)
    hashes = {row.seq: a.store.change_hash(1, row.writer, row.seq) for row in a.store.log(1, 0, 2**40, 2**30)}
    fleet.run(3, 0.02)
    writer = a.replica.writer or 0
    assert a.replica.floor == {writer: 100 - check(a)["log_changes"]}
    for seq, whole in hashes.items():
        assert whole is not None
        known = a.store.change_hash(1, writer, seq)
        assert known == (whole if seq > a.replica.floor[Writer(writer)] else whole[:8])
    monkeypatch.setattr("crdtsyncd.storage.writes.CHANGE_HASHES_MAX", 20)
    overwrite(ann, 2)
    fleet.run(3, 0.02)
    floor = a.replica.floor[Writer(writer)]
    assert [seq for seq in range(1, floor + 1) if a.store.change_hash(1, writer, seq)] == [
        *range(floor - 19, floor + 1)
    ]
    fleet.pass_time(31 * DAY_MS / 1000)
    overwrite(ann, 1)
    fleet.run(3, 0.02)
    assert a.store._one("SELECT COUNT(*) FROM change_hashes WHERE seq <= ?", (floor,)) == (0,)


# -- reads of what is older ------------------------------------------------------------------------------------------


def test_a_watch_from_before_the_floor_starts_over(fleet: Fleet) -> None:
    a = fleet["a"]
    ann = a.agent()
    token = ann.set("k", 0)["token"]
    overwrite(ann, 100)
    covered = ann.ask("scan")["token"]
    overwrite(ann, 3)
    fleet.run(3, 0.02)
    ann.ask("watch", prefix="", after=covered)
    assert [event["op"] for event in ann.told()] == ["set"] * 3
    ann.ask("watch", prefix="", after=token)
    events = [(event["event"], event["key"]) for event in ann.told()]
    assert events == [("reset", None), ("snapshot", "k"), ("snapshot", None)]
    ann.set("j", 1)
    assert [event["key"] for event in ann.told()] == ["j", "j"]  # both watches are live


def test_a_slow_watch_that_a_trim_overtakes_starts_over(fleet: Fleet) -> None:
    a = fleet["a"]
    ann, slow = a.agent(), a.agent()
    token = ann.set("k", 0)["token"]
    overwrite(ann, 20)
    slow.send("watch", prefix="", after=token)
    slow.flow(blocked=True)
    overwrite(ann, 100)
    fleet.run(3, 0.02)
    slow.flow(blocked=False)
    fleet.run(1)
    events = [(event["event"], event["value"] and unpack(event["value"])) for event in slow.told()]
    assert events == [("reset", None), ("snapshot", 99), ("snapshot", None)]


class Editor:
    """Somebody who writes one text, always at its end."""

    def __init__(self, session: Agent, key: str = "notes") -> None:
        self.session = session
        self.key = key
        self.doc: Doc[Text] = Doc(client_id=7)
        self.text = self.doc.get("text", type=Text)
        self.document: str | None = None

    def write(self, word: str) -> Any:
        before = self.doc.get_state()
        self.text.insert(len(str(self.text)), word)
        reply = self.session.do("text_apply", key=self.key, document=self.document, update=self.doc.get_update(before))
        self.document = reply["document"]
        return reply


def applied(items: list[list[Any]]) -> str:
    doc: Doc[Text] = Doc()
    for item in items:
        doc.apply_update(item[0])
    return str(doc.get("text", type=Text))


def test_edits_from_before_the_floor_come_as_the_whole_text(fleet: Fleet) -> None:
    a = fleet["a"]
    ann = a.agent()
    editor = Editor(ann)
    first = editor.write("one ")["token"]
    assert len(ann.ask("text_updates", key="notes")["items"]) == 1
    overwrite(ann, 100)
    editor.write("two ")
    token = ann.ask("scan")["token"]
    editor.write("three ")
    fleet.run(3, 0.02)
    late = Editor(ann, "late")
    late.write("x")
    for after in (None, first):
        answer = ann.ask("text_updates", key="notes", after=after)
        assert (answer["reset"], len(answer["items"]), answer["more"]) == (True, 1, False)
        assert applied(answer["items"]) == "one two three "
        assert ann.ask("text_updates", key="notes", after=answer["token"])["items"] == []
    answer = ann.ask("text_updates", key="notes", after=token)
    assert (answer["reset"], len(answer["items"])) == (False, 1)
    answer = ann.ask("text_updates", key="late")
    assert (answer["reset"], len(answer["items"])) == (False, 1), "a text younger than the floor is all there"


def test_edits_go_with_the_log_once_the_text_is_stored_whole(fleet: Fleet) -> None:
    a = fleet["a"]
    ann = a.agent()
    editors = [Editor(ann, f"notes/{n}") for n in range(5)]
    for n in range(20):
        for editor in editors:
            editor.write(f"{n} ")
    before = check(a)["document_bytes"]
    overwrite(ann, 100)
    fleet.run(5, 0.02)
    assert a.store._one("SELECT COUNT(*) FROM document_updates", ()) == (0,)
    assert a.store._one("SELECT COUNT(*) FROM document_states", ()) == (5,)
    assert check(a)["document_bytes"] < before
    editors[0].write("after")
    a.restart()
    assert a.agent().get("notes/4") == "".join(f"{n} " for n in range(20))
    assert a.agent().get("notes/0").endswith("19 after")
    check(a)


def test_a_text_as_a_snapshot_in_transfer_needs_it(fleet: Fleet) -> None:
    a = fleet["a"]
    ann = a.agent()
    editor = Editor(ann)
    for n in range(10):
        editor.write(f"{n}")
    pin = a.replica.position
    a.replica.pins.add(pin)
    dot = a.store.documents(1)[0]

    def as_of(position: int) -> str:
        state, updates = a.store.document_as_of(1, dot, position)
        return applied([[update] for update in ([state] if state else []) + updates])

    for n in range(10):
        editor.write(f"{n}")
        overwrite(ann, 3)
        fleet.run(0.5)
        assert as_of(pin) == "0123456789"
    assert a.replica.trimmed_position > 0
    a.replica.texts.store(dot)
    ann.set("k", 1)
    assert as_of(pin) == "0123456789"
    assert as_of(2**60) == "0123456789" * 2
    a.replica.pins.clear()
    overwrite(ann, 100)
    fleet.run(3, 0.02)
    assert as_of(2**60) == "0123456789" * 2
    assert a.store._one("SELECT COUNT(*) FROM document_states", ()) == (1,)
    check(a)


# -- older cuts --------------------------------------------------------------------------------------------------------


def cut(machine: Host, vector: VersionVector) -> set[Dot]:
    """The dots that were alive in a cut, as the rows on disk tell it."""
    db = machine.store._db
    held = db.execute("SELECT key, writer, seq, n FROM entries")
    dots = [(key, Dot(*dot)) for key, *dot in held.fetchall() if dot[1] <= vector.get(dot[0], 0)]
    gone: set[tuple[str, Dot]] = set()
    for key, writer, seq, removes in db.execute("SELECT key, writer, seq, removes FROM removals").fetchall():
        if seq > vector.get(writer, 0):
            continue
        plain = unpack(removes, strict_map_key=False)
        if isinstance(plain, list):
            gone |= {(key, Dot(*plain[i : i + 3])) for i in range(0, len(plain), 3)}
        else:
            covered = dict(zip(plain[0][::2], plain[0][1::2], strict=True))
            gone |= {(k, d) for k, d in dots if k == key and d.seq <= covered.get(d.writer, 0)}
    return {dot for key, dot in dots if (key, dot) not in gone}


def live(machine: Host) -> set[Dot]:
    entries = machine.replica.entries
    return {entry.dot for key in entries.keys() for entry in entries.held(key)}  # noqa: SIM118


@pytest.mark.parametrize("seed", range(6))
def test_history_tells_every_cut_above_its_floor(seed: int) -> None:
    random = Random(seed)
    with fleet_of("a", "b", caps=Caps(log_bytes_max=2000, history_bytes_max=3000)) as fleet:
        told: list[tuple[VersionVector, set[Dot]]] = []
        agents = [fleet[name].agent() for name in ("a", "b")]
        tested = refused = 0
        for _ in range(12):
            wire = fleet.link("a", "b")
            fleet.run(1)
            wire.close("cut")
            for _ in range(12):
                session = random.choice(agents)
                key = random.choice("klm")
                action = random.choice(("set", "set", "read", "delete", "append"))
                if action == "append":
                    session.append("log", 1)
                    if random.random() < 0.3:
                        session.do("trim", key="log", keep=1)
                elif action == "delete":
                    session.delete(key)
                else:
                    session.set(key, 1, **({"seen": session.version(key)} if session.get(key) is not None else {}))
                told.append((dict(session.machine.replica.vector), live(session.machine)))
            fleet.run(1.2, 0.05)
            for machine in fleet.machines.values():
                check(machine)
                for vector, dots in told:
                    if not covers(machine.replica.vector, vector):
                        continue
                    if covers(vector, machine.replica.past.floor):
                        assert cut(machine, vector) == dots
                        tested += 1
                    else:
                        refused += 1
        assert tested > 100
        assert refused > 100
