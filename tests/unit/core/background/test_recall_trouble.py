"""A node that recalls a checkpoint gets over nodes that do not give it, and over bad moments."""

from __future__ import annotations

import pytest

from crdtsync.core.background import checkpoint_recall, purging
from crdtsync.core.background.checkpoint_recall import _entry as entry_of
from crdtsync.core.reads.gone_since import GoneSince
from crdtsync.errors import TooOld
from crdtsync.wire.peer.messages import decode_message
from crdtsync.wire.peer.snapshot import DocumentPiece, EntryFields, decode_part, encode_entries
from crdtsync.wire.peer.values import Recalled
from tests.fleet.fleet import Fleet, fleet_of
from tests.fleet.host import Host
from tests.simulator.cuts import shown
from tests.unit.core.background.test_checkpoint_recall import AT, TINY_LOG, is_whole, late_fleet
from tests.unit.core.background.test_sleep import is_asleep, let_minutes_pass


def ruin(fleet: Fleet, *checkpoints: str) -> None:
    """Make these, one after the other, and overwrite what they hold; c comes then."""
    ann = fleet["a"].agent("ann")
    for name in checkpoints:
        ann.set("k", name)
        ann.do("checkpoint_set", name=name)
        fleet.sync()
    fleet.run(3, step_s=1)
    for n in range(100):
        ann.set("k", n)
    fleet.run(20, step_s=1)
    fleet.add("c")


def test_another_node_is_asked_after_one_that_gave_what_does_not_add_up(monkeypatch):
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
        fleet.link("c", "a")
        fleet.link("c", "b")
        fleet.run(60, step_s=0.5)
        assert shown(fleet["c"].agent("cid"), AT) == before


def test_one_that_nobody_gives_holds_up_no_older_one(monkeypatch):
    give = GoneSince.advance

    def miserly(self):
        if self._record.name == "newer":
            raise TooOld("not here")
        return give(self)

    monkeypatch.setattr(GoneSince, "advance", miserly)
    with fleet_of("a", "b", linked=True, caps=TINY_LOG) as fleet:
        ruin(fleet, "older", "newer")
        fleet.link("c", "a")
        fleet.run(60, step_s=0.5)
        cid = fleet["c"].agent("cid")
        assert not is_whole(cid, "newer")
        assert is_whole(cid, "older")


def test_it_is_not_let_be_before_its_bounds_are_known(monkeypatch):
    monkeypatch.setattr(checkpoint_recall, "LOOK_INTERVAL_S", 0.1)
    with fleet_of("a", "b", linked=True, caps=TINY_LOG) as fleet:
        ruin(fleet, "before")
        fleet["c"].restart()
        fleet.link("c", "a")
        fleet.run(20, step_s=0.1)
        assert is_whole(fleet["c"].agent("cid"))


def test_what_is_to_go_goes_also_if_another_space_is_closed_meanwhile(monkeypatch):
    monkeypatch.setattr(checkpoint_recall, "DROPPED_ROWS", 1)
    with fleet_of("a", "b", linked=True, caps=TINY_LOG) as fleet:
        late_fleet(fleet)
        fleet.link("c", "a")
        fleet.run(30, step_s=0.5)
        cid, node = fleet["c"].agent("cid"), fleet["c"].node
        assert is_whole(cid)
        cid.ask("space_create", name="other")
        cid.do("checkpoint_set", name="before", remove=True)
        while not node.recalls._leavings:
            fleet.run(0.05, step_s=0.05)
        cid.ask("space_drop", name="other")
        fleet.run(10, step_s=0.05)
        assert node.storage.metas("kept/") == []


def recalled_texts(machine: Host) -> int:
    """How many documents a host keeps under numbers of no space."""
    store = machine.node.storage
    return sum(len(store.document_spans(number, None, 9)) for number in machine.replica.checkpoints.recalled_numbers())


def gives_texts(data: bytes) -> bool:
    message = decode_message(data)
    content = decode_part(message.data) if isinstance(message, Recalled) and message.data else []
    return isinstance(content, list) and any(isinstance(row, DocumentPiece) for row in content)


def test_a_text_that_is_being_purged_is_not_given(monkeypatch):
    """Its entry has gone from history, and its document goes last."""
    drop = purging.Work._drop_texts
    monkeypatch.setattr(purging.Work, "_drop_texts", lambda self: 1.0 if is_slow else drop(self))
    is_slow: bool = True
    with fleet_of("a", "b", linked=True, caps=TINY_LOG) as fleet:
        late_fleet(fleet)
        fleet["a"].agent("ann").do("purge", pattern="text")
        fleet.run(5, step_s=0.5)
        fleet.link("c", "a")
        fleet.run(30, step_s=0.5)
        assert recalled_texts(fleet["c"]) == 0
        is_slow = False
        fleet.run(100, step_s=1)
        assert is_whole(fleet["c"].agent("cid"))
        assert recalled_texts(fleet["c"]) == 0


def test_a_text_that_is_purged_while_it_is_recalled_does_not_come_after_that():
    """It is on its way when the purge is done."""
    with fleet_of("a", "b", linked=True, caps=TINY_LOG) as fleet:
        late_fleet(fleet)
        wire, late = fleet.link("c", "a"), fleet["c"]
        texts: list[bytes] = []
        while not texts:
            fleet.pass_time(0.05)
            for machine in wire.ends:
                texts = texts or [data for data in wire.waiting[0] if data[1] == Recalled.TYPE and gives_texts(data)]
                if not texts:
                    wire.deliver(machine)
                    machine.turn()
        late.agent("cid").do("purge", pattern="text")
        for _ in range(60):  # nothing comes meanwhile
            fleet.pass_time(0.05)
            late.turn()
        assert not late.node.purger.is_busy(late.replica)
        fleet.run(150, step_s=1)
        assert is_whole(late.agent("cid"))
        assert recalled_texts(late) == 0


@pytest.mark.parametrize("giver", ["a", "b"])
def test_a_space_whose_checkpoint_nobody_gives_sleeps_until_a_peer_comes(giver, monkeypatch):
    def miserly(self):
        raise TooOld("not here")

    with monkeypatch.context() as patch, fleet_of("a", "b", linked=True, caps=TINY_LOG) as fleet:
        patch.setattr(GoneSince, "advance", miserly)
        ruin(fleet, "before")
        fleet.link("c", "a")
        fleet.run(60, step_s=1)
        let_minutes_pass(fleet)
        assert is_asleep(fleet["c"])
        patch.undo()
        fleet.run(30, step_s=1)
        assert is_asleep(fleet["c"])
        fleet.wires[-1].close("cut")
        fleet.link("c", giver)
        fleet.run(100, step_s=1)
        assert not is_asleep(fleet["c"])
        assert is_whole(fleet["c"].agent("cid"))
