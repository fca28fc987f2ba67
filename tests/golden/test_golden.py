"""The formats are frozen: the same things are the same bytes as when the fixtures were made, and these still decode.

When a test here fails, the code has changed a format. If that was meant, see ``regenerate.py`` for what follows.
"""

from __future__ import annotations

import json
import sqlite3

import pytest
from crdtsyncd.storage import migration

from crdtsync.wire.codec import unpack
from crdtsync.wire.framing import FrameReader
from crdtsync.wire.limits import AGENT_FRAME_BYTES_MAX
from crdtsync.wire.peer.messages import decode_message
from crdtsync.wire.tokens import decode_dot, decode_token, decode_version, encode_dot, encode_token, encode_version
from tests.fleet.agent import Agent
from tests.fleet.clock import START_MS
from tests.fleet.fleet import Fleet, fleet_of
from tests.golden import examples
from tests.golden.regenerate import DATABASES, FORMATS, formats

FROZEN = json.loads(FORMATS.read_text())
CHANGES = FROZEN["changes"]


def test_nothing_is_missing():
    assert {section: [*items] for section, items in formats().items()} == {
        section: [*items] for section, items in FROZEN.items()
    }


@pytest.mark.parametrize("section, name", [(section, name) for section in FROZEN for name in FROZEN[section]])
def test_the_same_bytes(section, name):
    assert formats()[section][name] == FROZEN[section][name]


@pytest.mark.parametrize("name", CHANGES)
def test_frozen_changes_decode_to_what_they_were(name):
    change = examples.CODEC.decode(bytes.fromhex(CHANGES[name]))
    wanted = examples.changes()[name]
    for field in ("writer", "seq", "deps", "prev_hash", "hlc", "agent", "idempotency", "ops", "origin", "body"):
        assert getattr(change, field) == getattr(wanted, field), field
    assert change.hash.hex() == FROZEN["hashes of changes"][name]


def test_a_purged_value_left_the_hash():
    hashes = FROZEN["hashes of changes"]
    assert hashes["purged value"] == hashes["put, first of its writer"]
    assert hashes["fields of a newer version"] != hashes["put, first of its writer"]


@pytest.mark.parametrize("name", FROZEN["peer messages"])
def test_frozen_messages_decode(name):
    data = bytes.fromhex(FROZEN["peer messages"][name])
    message = decode_message(data)
    assert message is not None
    assert message.encode() == data


@pytest.mark.parametrize("name", FROZEN["agent frames"])
def test_frozen_frames_decode(name):
    (payload,) = FrameReader(AGENT_FRAME_BYTES_MAX).feed(bytes.fromhex(FROZEN["agent frames"][name]))
    assert len(unpack(payload)) == 3


@pytest.mark.parametrize("name", FROZEN["strings"])
def test_frozen_strings_decode(name):
    text = FROZEN["strings"][name]
    if name.startswith("token"):
        points = decode_token(text)
        assert encode_token([(space, *point) for space, point in points.items()]) == text
    elif name.startswith("version"):
        assert encode_version(decode_version(text)) == text
    else:
        assert encode_dot(decode_dot(text)) == text


# -- the database ----------------------------------------------------------------------------------------------------


@pytest.fixture(params=DATABASES, ids=lambda path: path.stem)
def old(request, monkeypatch):
    """A daemon on the database of a fixture."""
    monkeypatch.setattr(migration, "_now_ms", lambda: START_MS)
    with fleet_of() as fleet:
        data = fleet.directory / "old" / "data"
        data.mkdir(parents=True)
        db = sqlite3.connect(data / "crdtsync.db")
        db.executescript(request.param.read_text())
        db.close()
        yield fleet


def test_a_database_of_before_opens_and_holds_what_it_held(old: Fleet):
    machine = old.add("old")
    ann = machine.agent("ann")
    assert [item[0] for item in ann.ask("scan")["items"]] == ["b/1", "b/2", "conflict", "log", "notes", "plan/goal"]
    assert ann.get("plan/goal") == {"text": "ship it", "n": 2}
    assert ann.get("log") == [2, 3, 4]
    assert ann.get("notes") == "hello world"
    assert sorted(ann.values("conflict")) == ["from a", "from b"]
    assert ann.get("deleted") is None
    entry = ann.ask("entry", key="conflict")
    assert {entry["node"], *(sibling["node"] for sibling in entry["siblings"])} == {"host-a", "host-b"}
    (space,) = ann.ask("status")["spaces"]
    assert (space["keys"], space["entries"], space["siblings"]) == (6, 9, 1)
    assert sorted(space["version_vector"].values()) == [1, 14]
    assert len(ann.ask("text_updates", key="notes")["items"]) == 2


def test_it_is_written_on_and_replicated(old: Fleet):
    machine = old.add("old")
    ann = machine.agent("ann")
    ann.set("plan/goal", "next")
    ann.append("log", 5)
    old.add("new")
    old.link("new", "old")
    old.run(3)
    new = old["new"]
    assert new.replica.vector == machine.replica.vector
    assert new.replica.entries.digest == machine.replica.entries.digest
    assert new.agent().get("log") == [2, 3, 4, 5]
    assert new.agent().get("notes") == "hello world"
    assert not machine.alarms
    assert not new.alarms


def test_the_replies_to_old_writes_are_there(old: Fleet):
    machine = old.add("old")
    client, number = machine.store._one("SELECT client, number FROM outcomes ORDER BY number LIMIT 1", ())
    again = Agent(machine, "ann", bytes(client)).ask("append", key="log", value=b"\x63", n=number, again=True)
    assert again["token"]
    assert machine.agent().get("log") == [2, 3, 4]
