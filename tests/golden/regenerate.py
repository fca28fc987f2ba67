"""Write the fixtures anew: ``python -m tests.golden.regenerate [formats|database]``.

``formats.json`` freezes what goes over the wires: if it changes, daemons of two versions no longer understand each
other, or compute different hashes of one change. That needs a new protocol version, and this file gets new entries
beside the old ones. ``database_N.sql`` is a database as a daemon of format ``N`` left it: a new ``FORMAT`` of the
schema makes a new one, and the old ones stay to test the migration.
"""

from __future__ import annotations

import json
import sqlite3
import sys
from pathlib import Path

from crdtsyncd.storage.schema import APPLICATION_ID, FORMAT

from crdtsync.wire.codec import pack
from tests.golden import examples

HERE = Path(__file__).parent
FORMATS = HERE / "formats.json"
DATABASE = HERE / f"database_{FORMAT}.sql"
DATABASES = sorted(HERE.glob("database_*.sql"))


def formats() -> dict[str, dict[str, str]]:
    """All examples as text, with the hash of each change beside its bytes."""
    changes = examples.changes()
    return {
        "changes": {name: change.body.hex() for name, change in changes.items()},
        "hashes of changes": {name: change.hash.hex() for name, change in changes.items()},
        "peer messages": {name: data.hex() for name, data in examples.messages().items()},
        "agent frames": {name: data.hex() for name, data in examples.agent_frames().items()},
        "strings": examples.strings(),
    }


def database() -> str:
    """A small database with some of everything, as SQL. The random ids in it are part of the fixture."""
    from pycrdt import Doc, Text

    from tests.fleet.fleet import fleet_of

    with fleet_of("host-a", "host-b") as fleet:
        ann, bob = fleet["host-a"].agent("ann"), fleet["host-b"].agent("bob")
        ann.set("plan/goal", {"text": "ship", "n": 1}, confidence=0.5, meta=pack({"source": "golden"}))
        ann.set("plan/goal", {"text": "ship it", "n": 2})
        ann.set("deleted", 1)
        ann.delete("deleted")
        for n in range(5):
            ann.append("log", n)
        ann.do("trim", key="log", keep=3)
        doc: Doc[Text] = Doc(client_id=7)
        text = doc.get("text", type=Text)
        text.insert(0, "hello")
        document = ann.do("text_apply", key="notes", update=doc.get_update())["document"]
        before = doc.get_state()
        text.insert(5, " world")
        ann.do("text_apply", key="notes", document=document, update=doc.get_update(before))
        ann.set("conflict", "from a")
        bob.set("conflict", "from b")
        ann.do("batch", ops=[["set", {"key": key, "value": pack(key), "ttl": 2**40}] for key in ("b/1", "b/2")])
        fleet.link("host-a", "host-b")
        fleet.run(3)
        store = fleet["host-a"].store
        store.settle()
        store._journal.close()  # none of it is needed, so it is not part of the fixture
        store.truncate()
        with sqlite3.connect(store.path) as db:
            lines = [*db.iterdump()]
        db.close()
    return f"PRAGMA application_id = {APPLICATION_ID};\nPRAGMA user_version = {FORMAT};\n" + "\n".join(lines) + "\n"


def main(what: list[str]) -> None:
    """Write all fixtures, or those that are named."""
    if not what or "formats" in what:
        FORMATS.write_text(json.dumps(formats(), indent=1, ensure_ascii=False) + "\n")
    if not what or "database" in what:
        DATABASE.write_text(database())


if __name__ == "__main__":
    main(sys.argv[1:])
