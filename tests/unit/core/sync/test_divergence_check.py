"""Replicas that hold the same changes and another state are found, and mended, and nothing is lost by that."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from pycrdt import Doc, Text

from crdtsync.causality import Dot, Writer
from crdtsync.core.background.digest_warmup import sum_some
from crdtsync.core.crdt import entries
from crdtsync.core.sync.divergence_check import QUIET_S, REPAIR_WAIT_S
from crdtsync.core.sync.text_repair import held_elsewhere, united
from crdtsync.core.text.marker import named_document
from crdtsync.core.text.yjs_library import NO_CHANGE, edited_by, new_doc, text_in, whole_state
from crdtsync.wire.codec import pack
from crdtsync.wire.kinds import Kind
from crdtsync.wire.peer.changes import Want
from crdtsync.wire.peer.comparing import Digests
from crdtsync.wire.peer.messages import FEATURES
from crdtsync.wire.yjs.encoding import STEP_STRUCTS, Steps, at_once
from fuzz.yjs_steps import Item, update_of
from tests.fleet.agent import Refusal
from tests.fleet.fleet import Fleet
from tests.fleet.host import Host
from tests.fleet.snapshots import events, trim
from tests.fleet.stranger import Stranger


def lose(machine: Host, key: str) -> None:
    """The fault: the values of a key go from memory and disk, and no change says so."""
    replica = machine.replica
    gone = replica.entries.remove(key, tuple(entry.dot for entry in replica.entries.held(key)))
    machine.store._db.executemany("DELETE FROM entries WHERE row = ?", [(entry.row,) for entry in gone])
    machine.store._db.commit()


def values(fleet: Fleet, key: str) -> list[list[object]]:
    return [machine.agent().values(key) for machine in fleet.machines.values()]


def settle(fleet: Fleet) -> None:
    fleet.run(3 * QUIET_S, step_s=0.5)


def digests(fleet: Fleet) -> set[int]:
    return {machine.replica.entries.digest for machine in fleet.machines.values()}


def reconnect(fleet: Fleet) -> None:
    for wire in list(fleet.wires):
        wire.close()
    fleet.run(2)
    fleet.link("a", "b")
    settle(fleet)


def test_a_node_that_has_not_summed_up_yet_is_compared_when_it_has(
    pair: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its digest is asked of nobody before that: to work it out at once would keep everybody waiting."""
    monkeypatch.setattr(entries, "SUMMED_AT_ONCE_MAX", 0)
    a, b = pair["a"], pair["b"]
    a.agent("ann").set("k", 1)
    a.agent("ann").set("other", 2)
    pair.run(1)
    lose(b, "k")
    b.restart()
    reconnect(pair)
    assert not b.replica.entries.is_summed
    assert values(pair, "k") == [[1], []]
    while sum_some(b.node.replicas):
        pass
    settle(pair)
    assert values(pair, "k") == [[1], [1]]
    assert len(digests(pair)) == 1


def test_what_one_node_has_lost_comes_back(pair: Fleet) -> None:
    """Found though nobody writes, mended though nobody looks, and still there after a restart."""
    a, b = pair["a"], pair["b"]
    a.agent("ann").set("k", 1)
    a.agent("ann").set("other", 2)
    pair.run(1)
    watcher = b.agent("watcher")
    watcher.ask("watch", prefix="")
    pair.sync()
    watcher.told()
    lose(b, "k")
    reconnect(pair)
    assert values(pair, "k") == [[1], [1]]
    assert len(digests(pair)) == 1
    assert a.alarms == b.alarms == set(), "it is over"
    assert [event["came"] for event in events(b, "repaired")] == [1]
    assert "k" in [event["key"] for event in watcher.told()]
    b.restart()
    assert b.agent().values("k") == [1]


def test_what_comes_back_from_a_node_whose_disk_has_spoilt_it_is_damaged(pair: Fleet) -> None:
    """Else its readers get what stands for it, which no MessagePack is."""
    a, b = pair["a"], pair["b"]
    a.agent("ann").set("k", "x" * 100)
    a.agent("ann").set("other", 2)
    pair.run(1)
    for machine in (a, b):
        trim(machine)
    a.store.settle()
    a.store._db.execute("UPDATE entries SET value = ? WHERE key = 'k'", (pack("y" * 100),))
    a.store._db.commit()
    a.restart()
    lose(b, "k")
    reconnect(pair)
    assert [event["came"] for event in events(b, "repaired")] == [1]
    with pytest.raises(Refusal, match="damaged"):
        b.agent().ask("get", key="k")
    assert b.alarms == {"value_damaged"}
    b.agent().set("k", "anew")
    settle(pair)
    assert values(pair, "k") == [["anew"], ["anew"]]


def test_what_one_node_failed_to_remove_goes(pair: Fleet) -> None:
    """The other one knows that it was removed, and by what."""
    a, b = pair["a"], pair["b"]
    ann = a.agent("ann")
    ann.set("k", 1)
    ann.set("other", 2)
    pair.run(1)
    kept = b.replica.entries.held("k")[0]
    ann.delete("k")
    pair.run(1)
    b.replica.entries.add(kept)
    reconnect(pair)
    assert values(pair, "k") == [[], []]
    assert len(digests(pair)) == 1
    assert a.alarms == b.alarms == set()


def test_both_have_lost_something(pair: Fleet) -> None:
    """Each mends itself by the other."""
    for n in range(6):
        pair["a"].agent("ann").set(f"k/{n}", n)
    pair.run(1)
    for name, keys in (("a", (0, 1)), ("b", (2, 3))):
        for n in keys:
            lose(pair[name], f"k/{n}")
    reconnect(pair)
    assert [values(pair, f"k/{n}") for n in range(6)] == [[[n], [n]] for n in range(6)]
    assert len(digests(pair)) == 1


def text_of(machine: Host, key: str) -> str:
    answer = machine.agent().ask("text_read", key=key)
    doc: Doc[Text] = Doc()
    doc.apply_update(answer["update"])
    return str(doc.get("text", type=Text))


def edit(machine: Host, key: str, text: str) -> None:
    doc: Doc[Text] = Doc()
    doc.get("text", type=Text).insert(0, text)
    machine.agent("ann").do("text_apply", key=key, document=None, update=doc.get_update())


def test_texts_that_differ_are_found_and_united(pair: Fleet) -> None:
    """Their entries are equal: each names the same document."""
    a, b = pair["a"], pair["b"]
    edit(a, "notes", "what was written")
    pair.run(1)
    (marker,) = b.replica.entries.held("notes")
    assert marker.kind == Kind.TEXT
    b.store._db.execute("DELETE FROM document_updates")
    b.store._db.commit()
    b.restart()
    with pytest.raises(Refusal, match="does not hold the text"):
        text_of(b, "notes")
    assert len(digests(pair)) == 1
    reconnect(pair)
    assert text_of(b, "notes") == text_of(a, "notes") == "what was written"
    assert a.alarms == b.alarms == set()
    assert [event["texts"] for event in events(b, "repaired")] == [1]
    b.restart()
    assert text_of(b, "notes") == "what was written"


def test_replicas_that_are_equal_say_so_once(pair: Fleet) -> None:
    """And are quiet then."""
    edit(pair["a"], "notes", "text")
    settle(pair)
    for machine in pair.machines.values():
        assert machine.alarms == set()
        assert not events(machine, "repair_started")
        (link,) = machine.node.sync.links.values()
        assert link.spaces["default"].told == link.spaces["default"].heard
        assert machine.node.sync.comparer.deadline_s() is None


def test_a_difference_that_cannot_be_mended_is_tried_again_ever_later(
    pair: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each attempt moves the whole state."""
    from crdtsync.core.sync import repair

    monkeypatch.setattr(repair, "_missing", lambda *_: ([], []))
    pair["a"].agent("ann").set("k", 1)
    pair.run(1)
    lose(pair["b"], "k")
    reconnect(pair)
    for n in range(3):
        pair["a"].agent("ann").set(f"j/{n}", n)
        settle(pair)
    assert pair["b"].alarms == {"divergence"}
    assert len(events(pair["b"], "repair_started")) == 1
    pair.pass_time(REPAIR_WAIT_S)
    reconnect(pair)
    assert len(events(pair["b"], "repair_started")) == 2


def test_what_history_may_have_forgotten_does_not_come_back(pair: Fleet) -> None:
    """A removal that the other one has not had, perhaps: then nobody can say."""
    a, b = pair["a"], pair["b"]
    a.agent("ann").set("k", 1)
    pair.run(1)
    lose(b, "k")
    b.replica.past.cut({**b.replica.vector, 77: 1}, 0)  # type: ignore[dict-item]
    reconnect(pair)
    assert b.agent().values("k") == []
    assert b.alarms == {"divergence"}


def test_nobody_removes_on_the_word_of_a_peer_that_agrees(pair: Fleet) -> None:
    """Only what was found to differ is mended."""
    from crdtsync.wire.peer.comparing import Removed

    a, b = pair["a"], pair["b"]
    a.agent("ann").set("k", 1)
    settle(pair)
    (link,) = a.node.sync.links.values()
    a.node.sync.outbox.send(link, Removed("default", 0, [("k", b.replica.entries.held("k")[0].dot)]))
    pair.sync()
    assert b.agent().values("k") == [1]


def test_a_space_that_is_never_quiet_keeps_no_other_from_being_compared(pair: Fleet) -> None:
    """What is due is looked for at the front alone: whoever is put off has to go to the end."""
    settle(pair)
    node = pair["a"].node
    comparer = node.sync.comparer
    assert comparer.deadline_s() is None
    for node.now_s, name in ((0.0, "busy"), (1.0, "quiet"), (2.0, "busy")):
        comparer.note([name])
    assert comparer.deadline_s() == 1.0 + QUIET_S
    node.now_s = 1.0 + QUIET_S
    assert comparer._take_due(node.now_s) == ["quiet"]
    node.now_s = 2.0 + QUIET_S
    assert comparer._take_due(node.now_s) == ["busy"]


def continued(machine: Host, key: str, text: str, client: int = 7, root_name: str = "text") -> None:
    """An edit on top of what there is, under the name of that client of Yjs."""
    answer = machine.agent().ask("text_read", key=key)
    doc: Doc[Text] = Doc(client_id=client)
    doc.apply_update(answer["update"])
    before = doc.get_state()
    root = doc.get(root_name, type=Text)
    root.insert(len(str(root).encode()), text)
    machine.agent("ann").do("text_apply", key=key, document=answer["document"], update=doc.get_update(before))


def torn(fleet: Fleet) -> None:
    """Two programs edit under one name of Yjs on two hosts at once: each host keeps what came first."""
    a, b = fleet["a"], fleet["b"]
    edit(a, "notes", "what was written\n")
    fleet.run(1)
    for wire in list(fleet.wires):
        wire.close()
    fleet.run(2)
    continued(a, "notes", "this was a\n")
    continued(b, "notes", "that was b\n")
    fleet.link("a", "b")
    fleet.run(2)
    assert a.replica.vector == b.replica.vector
    assert text_of(a, "notes") == "what was written\nthis was a\n"
    assert text_of(b, "notes") != text_of(a, "notes")


def test_texts_that_yjs_cannot_unite_are_written_anew_as_two(pair: Fleet) -> None:
    torn(pair)
    a, b = pair["a"], pair["b"]
    settle(pair)
    assert len(digests(pair)) == 1
    assert a.alarms == b.alarms == set(), "it is over"
    written = [event for machine in (a, b) for event in events(machine, "text_rewritten")]
    assert [event["key"] for event in written] == ["notes"], "by one of them"
    for machine in (a, b):
        machine.restart()
        found = machine.agent().values("notes")
        assert sorted(found) == ["what was written\nthat was b\n", "what was written\nthis was a\n"]


def test_torn_texts_with_formats_become_a_conflict(pair: Fleet) -> None:
    """Their words alone would be less than they hold."""
    a, b = pair["a"], pair["b"]
    doc: Doc[Text] = Doc(client_id=5)
    doc.get("text", type=Text).insert(0, "bold", {"b": True})
    a.agent("ann").do("text_apply", key="notes", document=None, update=doc.get_update())
    pair.run(1)
    for wire in list(pair.wires):
        wire.close()
    pair.run(2)
    continued(a, "notes", " by a")
    continued(b, "notes", " by b")
    pair.link("a", "b")
    settle(pair)
    assert a.alarms == b.alarms == set()
    assert len(digests(pair)) == 1
    for machine in (a, b):
        found = [machine.replica.documents.get(document).read() for document in documents(machine)]
        assert sorted(found) == ["bold by a", "bold by b"]


def documents(machine: Host) -> list[Dot]:
    return sorted({named_document(entry.value) for entry in machine.replica.entries.held("notes")})


def forged(client: int, origin: int, right: int | None) -> bytes:
    """An update that puts one character between two of client 1's, which nobody has seen side by side."""
    info, ids = (0x84, [1, origin]) if right is None else (0xC4, [1, origin, 1, right])
    return bytes([1, 1, client, 0, info, *ids, 1, ord("0") + client, 0])


def test_what_an_agent_forges_is_shown_alike_once_it_was_compared(pair: Fleet) -> None:
    """Yjs puts it where the order of coming puts it, which is another one on each node."""
    a, b = pair["a"], pair["b"]
    doc: Doc[Text] = Doc(client_id=1)
    doc.get("text", type=Text).insert(0, "abcd")
    a.agent("ann").do("text_apply", key="notes", document=None, update=doc.get_update())
    pair.run(1)
    document = a.agent().ask("text_read", key="notes")["document"]
    for wire in list(pair.wires):
        wire.close()
    pair.run(2)
    a.agent("eve").do("text_apply", key="notes", document=document, update=forged(2, 1, None))
    b.agent("eve").do("text_apply", key="notes", document=document, update=forged(3, 0, 2))
    pair.link("a", "b")
    pair.run(2)
    assert a.replica.documents.get(documents(a)[0]).read() == "ab3cd2"
    settle(pair)
    assert a.alarms == b.alarms == set()
    for machine in (a, b):
        (dot,) = documents(machine)
        assert machine.replica.documents.get(dot).read() == "ab23cd"
    a.restart()
    (dot,) = documents(a)
    assert a.replica.documents.get(dot).read() == "ab23cd"


def test_a_text_that_reads_otherwise_each_time_it_is_loaded_is_not_united() -> None:
    """Nodes load it at different times. Once they did not agree for good on what such a text says."""
    state = bytes.fromhex(
        "05010500c4010201010135010400c4010201000134010300c4010002000133010200c4010201000132"
        "030100040104746578740161840100026263840102016400"
    )
    document = Dot(Writer(1), 1, 0)
    texts = [at_once(text_in(state))]
    for _ in range(4):
        state = held_elsewhere(document, state).state()
        texts.append(at_once(text_in(state)))
    assert len({*texts}) > 1
    found = at_once(united(document, state, state))
    assert found is None or at_once(text_in(found.state())) == found.read()


def test_long_texts_are_united_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    def load_alone(steps: Any) -> Any:
        assert steps.__name__ == "load", "in one go"
        return at_once(steps)  # of a state alone, which the library loads in one call

    document, items = Dot(Writer(1), 1, 0), 4 * STEP_STRUCTS
    items_of = [Item((5, clock), None, (5, clock - 1) if clock else None) for clock in range(items)]
    common = update_of(items_of)
    ours, theirs = (whole_state(common, [update_of([Item((client, 0), None, (5, items - 1))])]) for client in (6, 7))
    monkeypatch.setattr("crdtsync.core.text.document.at_once", load_alone)
    whole: Any = None

    def all_of_it() -> Steps[None]:
        nonlocal whole
        whole = yield from united(document, ours, theirs)

    turns = len([*all_of_it()])
    assert turns > 4 * items // STEP_STRUCTS
    assert whole.read() == "a" * (items + 2)


def test_no_step_of_uniting_texts_loads_two(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library loads a text in one call, which takes longest of all."""
    document = Dot(Writer(1), 1, 0)
    ours = edited_by(NO_CHANGE, [(0, 0, "common ")], 7)
    theirs = whole_state(ours, [edited_by(ours, [(7, 7, "theirs")], 8)])
    ours = whole_state(ours, [edited_by(ours, [(0, 0, "our ")], 9)])
    loads = 0

    def load(client: int | None = None) -> Any:
        nonlocal loads
        loads += 1
        return new_doc(client)

    monkeypatch.setattr("crdtsync.core.text.document.new_doc", load)
    done = [0, *(loads for _ in united(document, ours, theirs))]
    assert loads >= 6
    assert {later - earlier for earlier, later in pairwise([*done, loads])} == {0, 1}


def test_a_text_that_cannot_be_united_keeps_no_node_from_catching_up(pair: Fleet) -> None:
    """One forged edit, and no snapshot could be taken any more."""
    a, b = pair["a"], pair["b"]
    edit(a, "notes", "what was written")
    pair.run(1)
    for wire in list(pair.wires):
        wire.close()
    pair.run(2)
    continued(a, "notes", "xyz")
    continued(b, "notes", "q", root_name="elsewhere")
    a.agent("ann").set("k", 1)
    trim(a)
    pair.link("a", "b")
    pair.run(2)
    assert [event["key"] for event in events(b, "text_torn")] == ["notes"]
    assert b.agent().get("k") == 1
    settle(pair)
    assert a.alarms == b.alarms == set()
    assert len(digests(pair)) == 1
    for machine in (a, b):
        found = [machine.replica.documents.get(document).read() for document in documents(machine)]
        assert sorted(found) == ["what was written", "what was writtenxyz"]


def test_a_digest_is_told_once(node: Host) -> None:
    """Whoever asks again and again for what it has is not told again and again."""
    node.agent().set("k", 1)
    stranger = Stranger(node, features=sorted(FEATURES))
    heard = []
    for _ in range(3):
        replica = node.replica
        stranger.say(Want("default", 0, replica.frontier))
        node.fleet.pass_time(QUIET_S + 1)
        heard += stranger.heard(Digests)
    assert [message.space for message in heard if message.space == "default"] == ["default"]
