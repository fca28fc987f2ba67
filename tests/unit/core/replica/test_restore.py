"""A restore makes of the keys what they were, and takes nothing from those who write meanwhile."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from pycrdt import Array, Doc, Map, Text, XmlElement, XmlFragment, XmlText

from crdtsync.client.text.tree import DocumentTree
from crdtsync.core.cluster.admission import Reach
from crdtsync.core.reads import as_of
from crdtsync.core.replica import restore as restoring
from crdtsync.core.text import like_then, map_making
from crdtsync.wire.codec import pack, unpack
from tests.fleet.agent import Refusal
from tests.fleet.editor import Editor
from tests.fleet.fleet import fleet_of
from tests.fleet.rights import ROOT, keyed
from tests.simulator.cuts import patiently, restore, said, write_something


@pytest.mark.parametrize("seed", range(5))
def test_all_kinds_are_as_they_were(seed):
    random = Random(seed)
    with fleet_of("a", "b", linked=True) as fleet:
        agents = [fleet[name].agent(f"agent-{name}") for name in "ab"]

        def play(count: int) -> None:
            for _ in range(count):
                fleet.pass_time(0.1)
                write_something(random.choice(agents), random)
                if random.random() < 0.6:
                    fleet.sync()
            fleet.sync()

        play(40)
        agents[0].do("checkpoint_set", name="before")
        before = said(agents[0])
        play(40)
        later = said(agents[1])
        token = patiently(agents[1], "scan")["token"]
        restore(agents[1])
        fleet.sync()
        for agent in agents:
            assert said(agent) == before
        position = fleet["b"].replica.position
        (again,) = restore(agents[1])
        assert (again["items"], fleet["b"].replica.position) == ([], position)
        restore(agents[0], at=token)  # a restore is a write like any other, and can be undone
        assert said(agents[0]) == later


def test_what_others_write_meanwhile_stays_beside_it(pair):
    ann, bob = pair["a"].agent("ann"), pair["b"].agent("bob")
    ann.set("k", "old")
    ann.do("checkpoint_set", name="before")
    ann.set("k", "ruined")
    ann.set("new", 1)
    pair.sync()
    pair.wires[0].close("cut")
    bob.set("k", "meanwhile", seen=bob.version("k"))
    bob.set("new", 2, seen=bob.version("new"))
    restore(ann)
    assert ann.values("k") == ["old"]
    assert ann.values("new") == []
    pair.link("a", "b")
    pair.sync()
    for agent in (ann, bob):
        assert sorted(agent.values("k")) == ["meanwhile", "old"]
        assert agent.values("new") == [2]


def test_two_restores_at_once_of_a_counter_and_a_text_count_once(pair):
    ann, bob = pair["a"].agent("ann"), pair["b"].agent("bob")
    editor = Editor(pair["a"], "t", "ann")
    editor.append("as it was")
    ann.do("incr", key="n", by=7)
    ann.do("checkpoint_set", name="before")
    ann.do("incr", key="n", by=3)
    editor.edit(0, 2, "ruined")
    pair.sync()
    pair.wires[0].close("cut")
    restore(ann)
    restore(bob)
    bob.do("incr", key="n", by=100)
    pair.link("a", "b")
    pair.sync()
    for agent in (ann, bob):
        assert agent.get("n") == 107
        assert agent.get("t") == "as it was"


def test_what_was_deleted_comes_back_also_texts_and_counters(pair):
    ann, bob = pair["a"].agent("ann"), pair["b"].agent("bob")
    Editor(pair["a"], "t", "ann").append("as it was")
    for n in range(3):
        ann.append("log", n)
    bob.do("incr", key="n", by=7)
    pair.sync()
    ann.do("checkpoint_set", name="before")
    for key in ("t", "log", "n"):
        ann.delete(key)
    pair.sync()
    restore(bob)
    pair.sync()
    assert (ann.get("t"), ann.get("log"), ann.get("n")) == ("as it was", [0, 1, 2], 7)


def test_a_log_keeps_its_order(node):
    ann = node.agent("ann")
    for n in range(5):
        ann.append("log", n)
    ann.do("checkpoint_set", name="before")
    dots = [item[1] for item in ann.ask("log", key="log")["items"]]
    ann.do("remove", key="log", dot=dots[2])
    ann.append("log", "more")
    restore(ann)
    assert ann.get("log") == [0, 1, 2, 3, 4]
    assert [item[1] for item in ann.ask("log", key="log")["items"]][:2] == dots[:2]


@pytest.mark.parametrize("kind", ["map", "set", "log"])
def test_of_a_key_with_many_parts_only_those_that_differ_are_looked_at(node, kind, monkeypatch):
    ann = node.agent("ann")
    parts = [f"{n:03}" for n in range(300)]

    def write(*some: str) -> None:
        for part in some:
            match kind:
                case "map":
                    ann.do("merge", key="k", fields={part: pack(part)})
                case "set":
                    ann.do("add", key="k", value=pack(part))
                case _:
                    ann.append("k", part)

    write(*parts)
    ann.do("checkpoint_set", name="before")
    before = ann.get("k")
    write("more", "yet more")
    looked_at: list[object] = []

    def content(entry, say=restoring._content):
        looked_at.append(entry)
        return say(entry)

    monkeypatch.setattr(restoring, "_content", content)
    (done,) = restore(ann, prefix="k")
    assert done["items"] == [["k", "changed"]]
    assert ann.get("k") == before
    assert len(looked_at) <= 2


def test_values_that_were_written_twice_come_back_once_each(pair):
    ann, bob = pair["a"].agent("ann"), pair["b"].agent("bob")
    ann.set("k", "same")
    bob.set("k", "same")
    pair.sync()
    ann.do("checkpoint_set", name="before")
    ann.set("k", "same", seen=ann.version("k"))
    assert [each["items"] for each in restore(ann)] == [[]]  # one of them is another entry, and says the same
    ann.delete("k")
    assert ann.values("k") == []
    restore(ann)
    assert ann.values("k") == ["same", "same"]


def test_as_many_entries_as_a_turn_compares_are_one_request(node, monkeypatch):
    ann, bob = node.agent("ann"), node.agent("bob")
    keys = [f"log/{n}" for n in range(6)]
    for key in keys:
        for n in range(10):
            ann.append(key, n)
    ann.do("checkpoint_set", name="before")
    for key in keys:
        bob.append(key, "more")
    monkeypatch.setattr(restoring, "ENTRIES_MAX", 40)
    done = restore(ann)
    assert [[key for key, _ in each["items"]] for each in done] == [keys[:2], keys[2:4], keys[4:]]
    assert [ann.get(key) for key in keys] == [[*range(10)]] * len(keys)


def test_so_are_as_many_rows_as_an_undo_reads(node, monkeypatch):
    ann = node.agent("ann")
    ann.do("checkpoint_set", name="before")
    for n in range(4):
        for value in range(8):
            ann.set(f"k/{n}", value)
    monkeypatch.setattr(restoring, "ENTRIES_MAX", 12 * restoring.ROW_ENTRIES)
    done = restore(ann, undo="ann")
    assert [len(each["items"]) for each in done] == [2, 2]
    assert ann.ask("scan", prefix="k/")["items"] == []


def test_an_undo_collects_few_keys_at_once(node, monkeypatch):
    ann, bob = node.agent("ann"), node.agent("bob")
    for n in range(6):
        bob.set(f"k/{n}", "bob's")
    ann.do("checkpoint_set", name="before")
    for n in range(6):
        ann.set(f"k/{n}", "ann's", seen=ann.version(f"k/{n}"))
    monkeypatch.setattr(as_of, "UNDO_KEYS_MAX", 2)
    monkeypatch.setattr(as_of, "WINDOW_ROWS", 2)
    done = restore(ann, undo="ann")
    assert [key for each in done for key, _ in each["items"]] == [f"k/{n}" for n in range(6)]
    assert len(done) > 1
    assert {ann.get(f"k/{n}") for n in range(6)} == {"bob's"}


def test_only_what_a_prefix_names_and_nothing_where_it_is_only_asked(node):
    ann = node.agent("ann")
    ann.do("checkpoint_set", name="before")
    ann.set("plan/a", 1)
    ann.set("other", 1)
    position = node.replica.position
    (answer,) = restore(ann, prefix="plan/", dry_run=True)
    assert (answer["items"], node.replica.position) == ([["plan/a", "removed"]], position)
    restore(ann, prefix="plan/")
    assert (ann.get("plan/a"), ann.get("other")) == (None, 1)


def test_a_key_that_stays_is_changed_and_not_removed(node):
    ann = node.agent("ann")
    ann.do("merge", key="map", fields={"a": pack(1)})
    ann.do("checkpoint_set", name="before")
    ann.do("merge", key="map", fields={"b": pack(2)})
    ann.set("new", 1)
    (answer,) = restore(ann, dry_run=True)
    assert answer["items"] == [["map", "changed"], ["new", "removed"]]
    restore(ann)
    assert ann.get("new") is None
    assert restore(ann)[0]["items"] == []


def test_many_keys_go_in_several_changes_and_a_cut_restore_is_done_again(node, monkeypatch):
    monkeypatch.setattr(restoring, "KEYS_MAX", 10)
    ann = node.agent("ann")
    for n in range(25):
        ann.set(f"k{n:02}", n)
    ann.do("checkpoint_set", name="before")
    for n in range(25):
        ann.set(f"k{n:02}", "ruined")
    for n in range(25, 40):
        ann.set(f"k{n:02}", "new")
    ann.number += 1
    patiently(ann, "restore", n=ann.number, at="checkpoint:before")  # and then its author is gone
    answers = restore(ann)
    assert sum(len(answer["items"]) for answer in answers) == 30
    assert len(answers) == 4
    assert said(ann) == {f"k{n:02}": ("register", [repr(n)]) for n in range(25)}


def test_values_with_a_time_to_live_come_back_for_what_is_left_of_it(node):
    ann = node.agent("ann")
    ann.set("short", 1, ttl=5_000)
    ann.set("long", 1, ttl=60_000)
    ann.do("checkpoint_set", name="before")
    ann.set("short", 2)
    ann.set("long", 2)
    node.fleet.run(20, step_s=1)
    restore(ann)
    assert (ann.get("short"), ann.get("long")) == (None, 1)
    node.fleet.run(50, step_s=1)
    assert ann.get("long") is None


def test_a_log_that_is_too_long_is_left_before_it_is_copied(node, monkeypatch):
    """20,000 elements were copied to be counted: a third of a second."""
    monkeypatch.setattr(restoring, "CHANGE_OPS_MAX", 10)
    ann = node.agent("ann")
    for n in range(12):
        ann.do("append", key="log", value=pack(n))
    ann.do("checkpoint_set", name="before")
    ann.do("trim", key="log", keep=0)
    copied = []
    monkeypatch.setattr(restoring, "_copied", lambda *args: copied.append(args))
    (answer,) = restore(ann)
    assert answer["left"] == [["log", "it takes 12 operations; at most 10 fit into one change"]]
    assert not copied


def test_keys_with_less_history_are_left_alone_and_told(node):
    ann = node.agent("ann")
    ann.do("schema_set", pattern="beat/*", policy="lww", history=False)
    ann.set("beat/a", 1)
    ann.set("plan", 1)
    ann.do("checkpoint_set", name="before")
    ann.set("beat/a", 2)
    ann.set("plan", 2)
    node.fleet.run(5)
    (answer,) = restore(ann)
    assert answer["left"] == [["beat/a", "less of it is kept than that, by a purge or its schema"]]
    assert (ann.get("beat/a"), ann.get("plan")) == (2, 1)


def test_long_values_come_back_from_disk(node):
    ann = node.agent("ann")
    values = {f"k{n}": str(n) * 50_000 for n in range(5)}
    for key, value in values.items():
        ann.set(key, value)
    ann.do("checkpoint_set", name="before")
    for key in values:
        ann.set(key, "ruined" * 10_000)
    node.restart()
    ann = node.agent("ann")
    page = patiently(ann, "scan", values=True, at="checkpoint:before")
    assert {key: unpack(value) for key, _, value, *_ in page["items"]} == values
    restore(ann)
    assert {key: ann.get(key) for key in values} == values


def test_siblings_come_back_as_siblings(pair):
    ann, bob = pair["a"].agent("ann"), pair["b"].agent("bob")
    pair.wires[0].close("cut")
    ann.set("k", 1)
    bob.set("k", 2)
    pair.link("a", "b")
    pair.sync()
    ann.do("checkpoint_set", name="before")
    ann.do("resolve", key="k", value=pack(3))
    restore(ann)
    assert sorted(ann.values("k")) == [1, 2]


def test_it_is_no_part_of_a_batch(node):
    with pytest.raises(Refusal, match="cannot be part of a batch"):
        node.agent("ann").do("batch", ops=[["restore", {"at": 0}]])


def test_what_one_agent_did_is_undone_where_nobody_else_wrote_since(pair):
    ann, bad, bob = pair["a"].agent("ann"), pair["a"].agent("bad"), pair["b"].agent("bob")
    for key in ("ruined", "deleted", "built-on", "bobs", "untouched"):
        ann.set(key, "ann's")
    ann.append("log", 1)
    pair.sync()
    since = patiently(ann, "scan")["token"]
    bad.set("ruined", 1, seen=bad.version("ruined"))
    bad.set("ruined", 2)
    bad.delete("deleted")
    bad.set("new", 1)
    bad.append("log", 2)
    bad.set("built-on", "bad's", seen=bad.version("built-on"))
    pair.sync()
    bob.set("built-on", "bob's", seen=bob.version("built-on"))
    bob.set("bobs", "bob's", seen=bob.version("bobs"))
    pair.sync()
    for agent in (bob, ann):
        (answer,) = restore(agent, at=since, undo="bad", dry_run=agent is bob)
        assert answer["items"] == [
            ["deleted", "restored"], ["log", "changed"], ["new", "removed"], ["ruined", "restored"]
        ]  # fmt: skip
        assert answer["left"] == [["built-on", "bob wrote it too since then"]]
    pair.sync()
    values = {key: bob.get(key) for key in ("ruined", "deleted", "new", "log", "built-on", "bobs", "untouched")}
    assert values == {
        "ruined": "ann's", "deleted": "ann's", "new": None, "log": [1], "built-on": "bob's", "bobs": "bob's",
        "untouched": "ann's",
    }  # fmt: skip


@pytest.mark.parametrize("name", ["", " ", 7, ["ann"]])
def test_what_can_name_no_agent_is_refused_as_one_to_undo(node, name):
    with pytest.raises(Refusal, match="cannot name an agent"):
        restore(node.agent("ann"), at=5, undo=name)


def test_a_key_that_its_author_may_not_read_is_not_named():
    """Changed, new, deleted, and with less history than that: one may read it, one may write it, one may do nothing."""
    with fleet_of("a") as fleet:
        machine = fleet["a"]
        machine.step(Reach(operators=(0,)))
        root = machine.agent("root", user=ROOT)
        critic = keyed(root, read="plan/**", write="reviews/*")

        def write(value: str) -> None:
            for room in ("plan", "reviews", "secret"):
                for name in ("changed", value):
                    root.set(f"{room}/{name}", value)

        root.do("schema_set", pattern="secret/beat", policy="lww", history=False)
        root.set("secret/beat", 1)
        write("old")
        root.do("checkpoint_set", name="before")
        write("new")
        root.set("secret/beat", 2)
        for room in ("plan", "reviews", "secret"):
            root.delete(f"{room}/old")
        names = ("changed", "new", "old")
        for args in ({"dry_run": True}, {"undo": "root", "dry_run": True}, {"prefix": "secret/"}, {}):
            answers = restore(critic, **args)
            rooms = ("plan", "reviews") if args != {"prefix": "secret/"} else ()
            left = [key for answer in answers for key, _ in answer["left"]]
            assert left == [f"plan/{name}" for name in names if "plan" in rooms]
            touched = [key for answer in answers for key, _ in answer["items"]]
            assert touched == [f"reviews/{name}" for name in names if "reviews" in rooms]
        assert (critic.get("reviews/changed"), root.get("secret/changed")) == ("old", "new")


def test_what_was_said_of_a_value_comes_back_and_is_compared(pair):
    ann = pair["a"].agent("ann")
    for key in ("changed", "kept"):
        ann.set(key, 1, meta=pack("ann"), confidence=0.5)
    ann.do("checkpoint_set", name="before")
    ann.set("changed", 1, meta=pack("bob"), confidence=0.5)
    (done,) = restore(ann)
    assert done["items"] == [["changed", "restored"]]
    entry = ann.do("entry", key="changed")
    assert (entry["meta"], entry["confidence"]) == (pack("ann"), 0.5)


@pytest.mark.parametrize("name", ["scan", "restore"])
def test_no_place_names_a_key_that_may_not_be_read(name, monkeypatch):
    for module in (as_of, restoring):
        monkeypatch.setattr(module, "KEYS_MAX", 7)
    monkeypatch.setattr(as_of, "WINDOW_ROWS", 5)
    with fleet_of("a") as fleet:
        machine = fleet["a"]
        machine.step(Reach(operators=(0,)))
        root = machine.agent("root", user=ROOT)
        critic = keyed(root, write="plan/*/goal")

        def write(value: str, first: int) -> None:
            for n in range(first, first + 60):
                for key in (f"plan/{n:02}/goal", f"plan/{n:02}/hidden", f"secret/{n:02}"):
                    if n % 5 == 0 or not key.endswith("goal"):
                        root.set(key, value)

        write("old", 0)
        root.do("checkpoint_set", name="before")
        write("new", 30)
        for n in range(0, 90, 2):
            for key in (f"plan/{n:02}/goal", f"plan/{n:02}/hidden", f"secret/{n:02}"):
                root.delete(key)
        machine.store.settle()
        if name == "restore":
            answers = restore(critic)
        else:
            answers = [patiently(critic, "scan", at="checkpoint:before", limit=3)]
            while answers[-1]["more"]:
                start = answers[-1].get("next") or answers[-1]["items"][-1][0]
                answers.append(patiently(critic, "scan", at="checkpoint:before", limit=3, start=start))
        places = [answer["next"] for answer in answers if answer.get("next")]
        assert places or name == "scan"
        assert all(place.endswith("/goal") for place in places)
        assert not any(answer.get("left") for answer in answers)
        keys = [item[0] for answer in answers for item in answer["items"]]
        then = [f"plan/{n:02}/goal" for n in range(0, 60, 5)]
        since = [f"plan/{n}/goal" for n in range(65, 90, 10)]  # came later, and were not deleted again
        stayed = [f"plan/{n:02}/goal" for n in range(5, 30, 10)]
        assert keys == (then if name == "scan" else sorted({*then, *since} - {*stayed}))
        if name == "restore":
            assert said(critic) == {key: ("register", ["'old'"]) for key in then}


@pytest.mark.parametrize("name", ["scan", "restore"])
def test_many_keys_that_may_not_be_read_are_passed_over_at_once(name, monkeypatch):
    monkeypatch.setattr(as_of, "WINDOW_ROWS", 5)
    looks = []
    look = as_of.Collecting._look_at_window

    def counted(self):
        looks.append(self)
        return look(self)

    monkeypatch.setattr(as_of.Collecting, "_look_at_window", counted)
    with fleet_of("a") as fleet:
        machine = fleet["a"]
        machine.step(Reach(operators=(0,)))
        root = machine.agent("root", user=ROOT)
        critic = keyed(root, write="zz/*")
        for n in range(300):
            root.set(f"a/{n}", 1)
        root.set("zz/1", "old")
        root.do("checkpoint_set", name="before")
        root.set("zz/1", "new")
        machine.store.settle()
        if name == "restore":
            restore(critic)
            assert said(critic) == {"zz/1": ("register", ["'old'"])}
        else:
            answer = patiently(critic, "scan", at="checkpoint:before", limit=3)
            assert [item[0] for item in answer["items"]] == ["zz/1"]
        assert 1 <= len(looks) <= 4


class Maps:
    """The map of a document, edited on one host."""

    def __init__(self, host, key="board"):
        self.agent, self.key = host.agent("ann"), key

    def tree(self, at=None):
        reply = patiently(self.agent, "text_read", key=self.key, **({"at": at} if at else {}))
        return (reply["document"], DocumentTree(reply["update"])) if reply else (None, DocumentTree(None))

    def edit(self, name, *args):
        document, tree = self.tree()
        update = tree.edited(lambda tree: getattr(tree, name)(*args))
        self.agent.do("text_apply", key=self.key, document=document, update=update)

    def get(self):
        return self.tree()[1].get("")


def test_a_document_is_edited_to_what_it_was_on_two_hosts_alike_and_comes_back_when_it_is_gone(pair):
    one, other = Maps(pair["a"]), Maps(pair["b"])
    cards = [{"title": f"card {n}", "tags": ["x", None, 1.5]} for n in range(20)]
    one.edit("set", "columns", [{"title": "todo", "cards": cards}])
    one.edit("set", "owner", {"name": "ann"})
    before = one.get()
    one.agent.do("checkpoint_set", name="before")
    one.edit("set", "columns/0/cards/3/title", "ruined")
    one.edit("delete", "columns/0/cards/7")
    one.edit("insert", "columns/0/cards/0", 7)
    one.edit("delete", "owner")
    one.edit("set", "new", True)
    pair.sync()
    pair.wires[0].close("cut")
    for maps in (one, other):
        (done,) = restore(maps.agent)
        assert (done["items"], done["left"]) == ([["board", "restored"]], [])
        assert maps.get() == before
    other.edit("set", "columns/0/cards/5/title", "meanwhile")
    pair.link("a", "b")
    pair.sync()
    before["columns"][0]["cards"][5]["title"] = "meanwhile"
    assert one.get() == other.get() == before
    one.agent.delete("board")
    before["columns"][0]["cards"][5]["title"] = "card 5"
    for items in ([["board", "restored"]], []):
        (done,) = restore(one.agent)
        pair.sync()
        assert one.get() == other.get() == before
        assert done["items"] == items


def test_a_document_that_no_edit_brings_back_is_left_alone_and_told(node, monkeypatch):
    maps = Maps(node)
    maps.edit("set", "columns", [1, 2, 3])
    maps.agent.do("checkpoint_set", name="before")
    maps.edit("set", "columns/0", 4)
    monkeypatch.setattr(like_then, "MAP_BYTES_MAX", 10)
    (done,) = restore(maps.agent)
    assert (done["items"], [key for key, _ in done["left"]]) == ([], ["board"])
    assert "of over 10 bytes" in done["left"][0][1]
    monkeypatch.undo()
    page: Doc[Any] = Doc()
    page.get("prosemirror", type=XmlFragment).children.append(XmlElement("p"))
    maps.agent.do("text_apply", key="board", document=maps.tree()[0], update=page.get_update())
    (done,) = restore(maps.agent)
    assert (done["items"], "only its editor can bring back: 'prosemirror'" in done["left"][0][1]) == ([], True)
    assert maps.get() == {"columns": [4, 2, 3]}


def test_shared_texts_and_xml_within_a_document_come_back_and_formats_are_no_part_of_that(node):
    maps = Maps(node)
    page: Doc[Any] = Doc()
    root = page.get("doc", type=Map)
    root["note"] = Text("as it was")
    root["page"] = XmlFragment([XmlElement("p", {"class": "a"}, [XmlText("hello")])])
    maps.agent.do("text_apply", key="board", update=page.get_update())
    before = maps.get()
    assert before == {"note": "as it was", "page": '<p class="a">hello</p>'}
    maps.agent.do("checkpoint_set", name="before")
    for name in ("note", "page"):
        maps.edit("delete", name)
    restore(maps.agent)
    assert maps.get() == before
    root["note"].format(0, 2, {"bold": True})
    maps.agent.delete("board")
    maps.agent.do("text_apply", key="board", update=page.get_update())
    maps.agent.do("checkpoint_set", name="formats")
    maps.agent.delete("board")
    (done,) = restore(maps.agent, at="checkpoint:formats")
    assert (done["items"], "a text with formats" in done["left"][0][1]) == ([], True)


@pytest.mark.parametrize("how", ["in a map", "in a list", "in a plain list", "gone"])
def test_bytes_in_a_document_come_back_as_they_were(node, how):
    maps = Maps(node)
    maps.edit("set", "held", [b"a", 1] if how == "in a list" else {"x": b"a"})
    if how == "in a plain list":
        page: Doc[Any] = Doc()
        page.get("doc", type=Map)["held"] = [b"a", 1]
        maps.agent.do("text_apply", key="board", document=maps.tree()[0], update=page.get_update())
    before = maps.get()
    maps.agent.do("checkpoint_set", name="before")
    match how:
        case "in a map":
            maps.edit("set", "held/x", "other")
        case "in a list":
            maps.edit("delete", "held/0")
        case "in a plain list":
            maps.edit("delete", "held")
        case _:
            maps.agent.delete("board")
    (done,) = restore(maps.agent)
    assert (done["items"], done["left"], maps.get()) == ([["board", "restored"]], [], before)


def test_a_plain_object_is_left_alone_where_it_is_to_be_made_anew(node):
    """The Yjs library writes its names in any order: two hosts would make two of it."""
    maps, page = Maps(node), Doc[Any]()
    page.get("doc", type=Map)["cards"] = Array([{"title": "a", "done": False}, {"title": "b", "done": True}])
    maps.agent.do("text_apply", key="board", update=page.get_update())
    maps.agent.do("checkpoint_set", name="before")
    maps.edit("delete", "cards/0")
    changed = maps.get()
    (done,) = restore(maps.agent)
    assert (done["items"], maps.get()) == ([], changed)
    assert "a plain object of several names" in done["left"][0][1]


def test_no_more_of_a_document_is_looked_at_than_a_turn_has_time_for(node, monkeypatch):
    maps = Maps(node)
    maps.edit("set", "list", [*range(20)])
    maps.agent.do("checkpoint_set", name="before")
    maps.edit("set", "list", [])
    monkeypatch.setattr(map_making, "WORK_MAX", 20 + 20 * 3 - 1)
    (done,) = restore(maps.agent)
    assert (done["items"], maps.get()) == ([], {"list": []})
    assert "takes too long to compare" in done["left"][0][1]
    monkeypatch.setattr(map_making, "WORK_MAX", 20 + 20 * 3)
    (done,) = restore(maps.agent)
    assert (done["items"], maps.get()) == ([["board", "restored"]], {"list": [*range(20)]})
