"""A node that recalls a checkpoint gets over nodes that do not give it, and over bad moments."""

from __future__ import annotations

from crdtsync.core.background import purging
from crdtsync.wire.peer.messages import decode_message
from crdtsync.wire.peer.recalling import Recalled
from crdtsync.wire.peer.snapshot import DocumentPiece, decode_part
from tests.fleet.fleet import fleet_of
from tests.fleet.host import Host
from tests.unit.core.background.test_checkpoint_recall import TINY_LOG, is_whole, late_fleet


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
