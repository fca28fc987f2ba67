"""What tests of snapshots share: nodes with forgotten logs, snapshots half taken, and peers played by hand."""

# mypy: disable-error-code="arg-type,dict-item,operator,var-annotated"

from __future__ import annotations

from crdtsync.core.storage.rows import LogTrim, pack_vector
from crdtsync.wire.codec import pack


def trim(machine):
    """Forget the whole log."""
    machine.turn()
    replica = machine.replica
    replica.floor = dict(replica.vector)
    replica.trimmed_position = replica.position
    batch = machine.node.ledger.batch
    batch.floors.append((pack_vector(replica.floor), replica.id))
    batch.log_trims.append(LogTrim(replica.id, replica.position, machine.fleet.now.wall_ms))
    machine.turn()


def fill(machine, count, prefix="k", size=1):
    agent = machine.agent()
    for n in range(count):
        agent.write("set", key=f"{prefix}/{n:05}", value=pack(bytes(size)))
    machine.turn()


def state(machine):
    replica = machine.replica
    return (
        replica.vector,
        replica.hashes,
        replica.entries.digest,
        sorted((e.key, e.dot, e.value) for e in replica.entries.all()),
        replica.origins,
    )


def agree(fleet, *names):
    machines = [fleet[name] for name in names or fleet.machines]
    assert all(state(machine) == state(machines[0]) for machine in machines[1:])
    for machine in machines:
        assert machine.alarms == set()
        on_disk = sorted((e.dot, e.row, e.key, e.value) for e in machine.store.entries(1))
        assert on_disk == sorted((e.dot, e.row, e.key, e.value) for e in machine.replica.entries.all())
        assert {w: (seq, h) for w, seq, h in machine.store.heads(1)} == {
            w: (seq, machine.replica.hashes[w]) for w, seq in machine.replica.vector.items()
        }
        if not machine.node.sync.snapshot_client.receipts:
            assert list(machine.store.staged_rows(1)) == list(machine.store.snapshot_parts(1)) == []


def events(machine, name):
    return [fields for event, fields in machine.log if event == name]


def begun(fleet, parts=4, third=False):
    """b has taken in some parts of a's snapshot; the connection between them. ``third``: c holds the same."""
    fill(fleet["a"], 95)
    if third:
        between = fleet.link("a", "c")
        fleet.run(1)
        between.close()
    trim(fleet["a"])
    wire = fleet.link("b", "a")
    for _ in range(100):
        receipt = fleet["b"].node.sync.snapshot_client.receipts.get("default")
        if receipt is not None and receipt.taking is not None and receipt.taking.parts >= parts:
            return wire, receipt.taking.id
        for end in wire.ends:
            wire.deliver(end, 1)
            end.turn()
    raise AssertionError("it did not begin")
