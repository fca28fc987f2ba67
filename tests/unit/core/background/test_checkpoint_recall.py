"""A node that came later, by a snapshot, comes to hold what older checkpoints hold."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Any

import pytest

from crdtsync.causality import Dot, Writer
from crdtsync.core.background import checkpoint_recall, purging
from crdtsync.core.background.checkpoint_recall import _entry as entry_of
from crdtsync.core.background.retention_caps import Caps
from crdtsync.core.peers import connections
from crdtsync.core.reads import gone_since
from crdtsync.core.reads.gone_since import GoneSince, packed_place, place_of
from crdtsync.core.storage.rows import DeadPlace
from crdtsync.errors import InvalidEncoding
from crdtsync.wire.codec import pack, unpack
from crdtsync.wire.peer.messages import FEATURES, decode_message
from crdtsync.wire.peer.snapshot import EntryFields, decode_part, encode_entries
from crdtsync.wire.peer.values import CHECKPOINTS, Recall, Recalled
from tests.fleet.agent import Agent, Refusal
from tests.fleet.editor import Editor
from tests.fleet.fleet import Fleet, fleet_of
from tests.fleet.host import Host
from tests.simulator.cuts import patiently, put_blob, restore, said, shown

TINY_LOG = Caps(2000, 7 * 86_400_000, 1 << 40, 86_400_000)
AT = "checkpoint:before"


def is_whole(session: Agent, name: str = "before") -> bool:
    (found,) = [item for item in session.ask("checkpoints")["items"] if item["name"] == name]
    return bool(found["whole"])


def fill(session: Agent) -> None:
    """Write keys of all kinds."""
    for n in range(20):
        session.set(f"k/{n:02}", n)
    session.set("long", "x" * 5000)
    session.do("incr", key="counter", by=3)
    for n in range(5):
        session.append("log", n)
    for n in range(3):
        session.do("add", key="set", value=b"%c" % n)
    session.do("merge", key="map", fields={"a": b"\x01", "b": b"\x02"})
    put_blob(session, "blob", b"bytes " * 1000, "a" * 24)
    editor = Editor(session.machine, "text", "ann")
    editor.edit(0, 0, "hello")


def ruin(session: Agent) -> None:
    """Overwrite and delete all of that."""
    for n in range(10):
        session.set(f"k/{n:02}", "ruined")
    for key in ("k/12", "k/13", "map", "blob", "counter"):
        session.delete(key)
    session.set("long", "y")
    session.do("trim", key="log", keep=1)
    session.append("log", 99)
    editor = Editor(session.machine, "text", session.name)
    length = len(editor.read())
    editor.edit(length, length, " world")


def late_fleet(fleet: Fleet, *, is_told: bool = True) -> tuple[list[Any], dict[str, Any]]:
    """A checkpoint on a, and what it holds is gone when c comes and gets a snapshot."""
    ann, bob = fleet["a"].agent("ann"), fleet["b"].agent("bob")
    fill(ann)
    fleet.sync()
    ann.do("checkpoint_set", name="before")
    before, words = shown(ann), said(ann)
    fleet.sync()
    fleet.run(5, step_s=1)
    ruin(bob)
    fleet.sync()
    for n in range(100):
        ann.set("churn", n)
    fleet.run(20, step_s=1)
    assert not is_told or shown(ann, AT) == before
    fleet.add("c")
    return before, words


def test_a_node_that_comes_later_has_what_a_checkpoint_holds_when_all_others_are_gone():
    with fleet_of("a", "b", linked=True, caps=TINY_LOG) as fleet:
        before, words = late_fleet(fleet)
        fleet.link("c", "a")
        fleet.run(30, step_s=0.5)
        cid = fleet["c"].agent("cid")
        assert fleet["c"].replica.floor
        assert is_whole(cid)
        for wire in list(fleet.wires):
            wire.close("gone")
        assert shown(cid, AT) == before
        assert said(cid, AT) == words
        fleet["c"].restart()
        cid = fleet["c"].agent("cid")
        assert shown(cid, AT) == before
        fleet.add("d")
        fleet.link("d", "c")
        fleet.run(30, step_s=0.5)
        dan = fleet["d"].agent("dan")
        assert is_whole(dan)
        assert shown(dan, AT) == before
        restore(dan, AT)
        fleet.sync()
        assert said(dan) == words
        assert said(cid) == words


def settled(fleet: Fleet, seconds: float = 30) -> Agent:
    """c has come over a wire to a, and had time."""
    fleet.link("c", "a")
    fleet.run(seconds, step_s=0.5)
    return fleet["c"].agent("cid")


def rows_of_no_space(machine: Host) -> int:
    """How many rows of entries and documents are of no space of a host."""
    ids = {replica.id for replica in machine.node.replicas.values()}
    database = sqlite3.connect(machine.store.data_dir / "crdtsync.db")
    with closing(database):
        found = database.execute(
            "SELECT space FROM entries UNION ALL SELECT space FROM document_states UNION ALL SELECT space FROM "
            "document_updates"
        ).fetchall()
    return sum(space not in ids for (space,) in found)


def test_it_goes_on_where_it_was_after_broken_connections_and_restarts(monkeypatch):
    monkeypatch.setattr(gone_since, "SLICE_ROWS", 5)
    monkeypatch.setattr(gone_since, "WINDOWS_MAX", 2)
    monkeypatch.setattr(checkpoint_recall, "LOOK_INTERVAL_S", 0.1)
    asked: list[bytes] = []
    with fleet_of("a", "b", linked=True, caps=TINY_LOG) as fleet:
        before, _ = late_fleet(fleet)
        fleet.hearing.append(lambda _from, _to, data: asked.append(data) if data[1] == Recall.TYPE else None)
        fleet.link("c", "a")
        fleet.run(2, step_s=0.1)  # for the snapshot, and until its caps have been looked at
        for number in range(9):
            if number % 3 == 0:
                fleet["c"].restart()
            else:
                fleet.wires[-1].close("cut")
            fleet.link("c", "a")
            fleet.run(1, step_s=0.1)
        fleet.run(5, step_s=0.1)
        cid = fleet["c"].agent("cid")
        assert shown(cid, AT) == before
        places = [message.place for data in asked if isinstance(message := decode_message(data), Recall)]
        assert len({*places}) > 3
        assert places.count(b"") <= 2


def test_a_peer_of_an_older_version_is_not_asked():
    with fleet_of("a", "b", linked=True, caps=TINY_LOG) as fleet:
        late_fleet(fleet)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(connections, "FEATURES", tuple(name for name in FEATURES if name != CHECKPOINTS))
            heard: list[int] = []
            fleet.hearing.append(lambda _from, _to, data: heard.append(data[1]))
            cid = settled(fleet)
            assert not is_whole(cid)
            assert not {Recall.TYPE, Recalled.TYPE} & {*heard}
            with pytest.raises(Refusal, match="too_old"):
                shown(cid, AT)
        for wire in list(fleet.wires):
            wire.close("upgraded")
        fleet.link("c", "b")
        fleet.run(10, step_s=0.5)
        assert is_whole(cid)


def test_what_does_not_add_up_is_dropped_and_another_node_is_asked(monkeypatch):
    """One row too few, and later one that came after the checkpoint."""
    give = GoneSince.advance

    def lossy(self):
        is_over = give(self)
        if is_over and self.data and self.replica.node == liar:
            content = decode_part(self.data)
            if isinstance(content[0], EntryFields):
                self.data = encode_entries([entry_of(row) for row in content[1:]])
        return is_over

    monkeypatch.setattr(GoneSince, "advance", lossy)
    with fleet_of("a", "b", linked=True, caps=TINY_LOG) as fleet:
        before, _ = late_fleet(fleet)
        liar = fleet["a"].replica.node
        cid = settled(fleet, 15)
        assert not is_whole(cid)
        assert fleet["c"].replica.checkpoints.kept(fleet["c"].replica.checkpoints.get("before")) is None
        fleet.run(20, step_s=0.5)
        fleet.link("c", "b")
        liar = ""
        fleet.run(60, step_s=0.5)
        assert shown(cid, AT) == before


def test_it_is_let_be_where_it_would_take_too_much():
    with fleet_of("a", "b", linked=True, caps=TINY_LOG) as fleet:
        late_fleet(fleet)
        fleet["c"].node.retention.caps = Caps(2000, 7 * 86_400_000, 1500, 86_400_000)
        cid = settled(fleet)
        assert not is_whole(cid)
        assert fleet["c"].replica.checkpoints.recalled_bytes() == 0
        assert rows_of_no_space(fleet["c"]) == 0
        assert not fleet["c"].replica.checkpoints.lacking()


def history_bytes(agent: Agent) -> int:
    """As the status shows it, of the space default."""
    return next(space["history_bytes"] for space in agent.ask("status")["spaces"] if space["name"] == "default")


def test_what_was_recalled_goes_with_the_checkpoint():
    with fleet_of("a", "b", linked=True, caps=TINY_LOG) as fleet:
        late_fleet(fleet)
        cid = settled(fleet)
        assert is_whole(cid)
        recalled = fleet["c"].replica.checkpoints.recalled_bytes()
        assert recalled > 0
        in_history = fleet["c"].store.log_stats(fleet["c"].replica.id)["history_bytes"]
        assert history_bytes(cid) == in_history + recalled
        reply = cid.ask("checkpoints")
        assert reply["held_bytes"] >= in_history + recalled
        assert reply["bytes_max"] == 4 * TINY_LOG.history_bytes_max
        assert rows_of_no_space(fleet["c"]) > 0
        cid.do("checkpoint_set", name="before", remove=True)
        fleet.sync()
        fleet.run(10, step_s=0.1)
        assert rows_of_no_space(fleet["c"]) == 0
        assert fleet["c"].node.storage.metas("kept/") == []
        assert history_bytes(cid) == fleet["c"].store.log_stats(fleet["c"].replica.id)["history_bytes"]
        assert cid.ask("checkpoints")["held_bytes"] == 0


def test_a_node_that_was_whole_stays_so_when_it_takes_a_snapshot_later():
    with fleet_of("a", "b", linked=True, caps=TINY_LOG) as fleet:
        before, words = late_fleet(fleet)
        cid = settled(fleet)
        for wire in list(fleet.wires):
            wire.close("cut")
        fleet.link("a", "b")
        ann = fleet["a"].agent("ann")
        for n in range(14, 20):
            ann.set(f"k/{n:02}", "ruined again")
        ann.delete("text")
        for n in range(100):
            ann.set("churn", n)
        fleet.run(20, step_s=1)
        fleet.link("c", "a")
        fleet.run(1, step_s=0.1)
        for wire in list(fleet.wires):
            wire.close("gone")
        cid = fleet["c"].agent("cid")
        assert unpack(cid.ask("get", key="k/14")["value"]) == "ruined again"
        assert shown(cid, AT) == before
        assert said(cid, AT) == words


def test_a_purge_reaches_what_was_recalled():
    with fleet_of("a", "b", linked=True, caps=TINY_LOG) as fleet:
        late_fleet(fleet)
        cid = settled(fleet)
        cid.do("purge", pattern="k/**")
        cid.do("purge", pattern="text")
        fleet.sync()
        fleet.run(10, step_s=0.1)
        ids = {replica.id for replica in fleet["c"].node.replicas.values()}
        with closing(sqlite3.connect(fleet["c"].store.data_dir / "crdtsync.db")) as database:
            keys = {key for space, key in database.execute("SELECT space, key FROM entries") if space not in ids}
            texts = database.execute("SELECT space FROM document_states").fetchall()
        assert keys
        assert not [key for key in keys if key.startswith("k/") or key == "text"]
        assert not [space for (space,) in texts if space not in ids]
        with pytest.raises(Refusal, match="too_old"):
            patiently(cid, "get", key="k/01", at=AT)
        assert patiently(cid, "get", key="long", at=AT)


def test_a_purge_that_waits_for_a_host_that_is_away_keeps_nobody_from_recalling():
    with fleet_of("a", "b", linked=True, caps=TINY_LOG) as fleet:
        fleet["b"].agent("bob").do("blob_write", key="note/blob", upload="b" * 24, part=0, value=b"unfinished")
        fleet.sync()
        late_fleet(fleet, is_told=False)
        fleet.wires[0].close("away")
        fleet["a"].agent("ann").do("purge", pattern="note/**")
        fleet.run(purging.TAKEOVER_S + 30, step_s=0.5)
        assert not fleet["a"].agent("ann").ask("purges")["items"][0]["done"]
        assert is_whole(settled(fleet))


def test_keys_of_which_the_giver_keeps_less_are_told_nowhere_and_the_others_are():
    with fleet_of("a", "b", linked=True, caps=TINY_LOG) as fleet:
        ann = fleet["a"].agent("ann")
        ann.do("schema_set", pattern="k/**", policy="lww", history=False)
        late_fleet(fleet, is_told=False)
        with pytest.raises(Refusal, match="too_old"):
            patiently(ann, "get", key="k/01", at=AT)
        cid = settled(fleet)
        assert is_whole(cid)
        with pytest.raises(Refusal, match="too_old"):
            patiently(cid, "get", key="k/01", at=AT)
        for key in ("long", "map", "counter", "log"):
            assert patiently(cid, "get", key=key, at=AT)["value"] == patiently(ann, "get", key=key, at=AT)["value"]


@pytest.mark.parametrize(
    "place",
    [
        b"x",
        b"\x91",
        pack([0]),
        pack([0, "k", b"x" * 10, 0]),
        pack([0, 1, b"", 0]),
        pack([3]),
        pack([1, 2]),
        pack({}),
        pack([0, "k", b"", -1]),
        pack([1, -1, 0, 0]),
        pack("no"),
    ],
)
def test_a_place_that_is_none_is_refused(place):
    with pytest.raises(InvalidEncoding):
        place_of(place)


@pytest.mark.parametrize("place", [DeadPlace("k", b"12345678", 3), (1, None), (2, Dot(Writer(1), 2, 3))])
def test_places_come_back(place):
    assert place_of(packed_place(place)) == place
