"""A copy of a host that does not know that it is one, and hosts that meet until all is quiet."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from hashlib import blake2b

from tests.fleet.fleet import Fleet
from tests.fleet.host import Host


def clone(fleet: Fleet, original: str, name: str) -> Host:
    """Copy a host, with its mark; the copy passes for another node."""
    machine = fleet[original]
    for wire in list(machine.wires.values()):
        wire.close("cloned")
    machine.sessions.clear()
    machine.store.close()
    shutil.copytree(machine.directory, fleet.directory / name)
    with closing(sqlite3.connect(fleet.directory / name / "data" / "crdtsync.db")) as db:
        node = blake2b(name.encode(), digest_size=16).hexdigest()
        db.execute("UPDATE meta SET value = ? WHERE name = 'node'", (node.encode(),))
        db.commit()
    machine.open()
    return fleet.add(name)


def meet(fleet: Fleet, *pairs: tuple[str, str], rounds: int = 8) -> None:
    """Links, dialled anew when they break, until all is quiet."""
    for _ in range(rounds):
        for one, other in pairs:
            if not any({end.name for end in wire.ends} == {one, other} for wire in fleet.wires):
                fleet.link(one, other)
        fleet.run(2.0, 0.5)


def part(fleet: Fleet) -> None:
    """Cut all links."""
    for wire in list(fleet.wires):
        wire.close()
    fleet.sync()
