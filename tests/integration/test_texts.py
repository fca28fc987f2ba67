"""Texts on real daemons: their size after many keystrokes, agents that hold an older document, late edits, merges."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from crdtsync import Client
from crdtsync.errors import InvalidRequest, StaleRead
from tests.harness.cluster import Cluster, wait_until, wait_until_equal
from tests.harness.daemon import Daemon
from tests.harness.shell import Shell

pytestmark = pytest.mark.integration

KEYSTROKES = 2_000
TEXT_CHARS = 10_000


def type_at_random(client: Client, key: str, keystrokes: int, random: Random) -> str:
    """Keystrokes all over a text, half of them deletions; what it reads in the end."""
    text = client.text(key)
    content = "".join(random.choices("abcdefgh \n", k=TEXT_CHARS))
    text.set(content)
    for _ in range(keystrokes // 2):
        at = random.randrange(TEXT_CHARS)
        text.insert(at, "x")
        content = content[:at] + "x" + content[at:]
        at = random.randrange(TEXT_CHARS)
        text.delete(at, 1)
        content = content[:at] + content[at + 1 :]
    return content


def test_after_many_keystrokes_and_a_compaction_a_text_is_as_small_as_a_fresh_one(daemon: Daemon) -> None:
    client = daemon.client()
    content = type_at_random(client, "typed", KEYSTROKES, Random(1))
    text = client.text("typed")
    assert text.read() == content
    written = text.compact()
    assert written.bytes_before > 3 * TEXT_CHARS
    assert written.bytes_after < 1.01 * TEXT_CHARS
    assert text.read() == content
    assert daemon.client("another").text("typed").read() == content
    daemon.kill()
    daemon.start()
    assert daemon.client("later").text("typed").read() == content


def test_every_agent_of_a_host_goes_on_without_noticing(daemon: Daemon) -> None:
    ann, bob = daemon.client("ann").text("notes"), daemon.client("bob").text("notes")
    ann.set("one two three")
    assert bob.read() == "one two three"
    for _ in range(20):
        ann.insert(0, "x")
        ann.delete(0, 1)
    ann.compact()
    ann.read()
    ann.insert(0, "zero ")
    bob.insert(4, "and ")  # in the text as it last read it
    bob.delete(0, 4)
    assert bob.read() == "zero and two three"
    assert ann.read() == "zero and two three"
    bob.insert(0, "! ")
    assert ann.read() == "! zero and two three"


def test_an_editor_with_a_yjs_document_of_its_own_is_told_to_start_over(daemon: Daemon) -> None:
    text = daemon.client().text("notes")
    text.set("first " * 50)
    (first,) = text.updates()
    text.set("second " * 50)
    text.compact()
    (update,) = text.updates(after=first.token)
    assert update.reset
    assert update.document != first.document
    assert list(text.updates(after=update.token)) == []


def test_a_session_that_compacts_a_text_may_delete_it_then(daemon: Daemon) -> None:
    """Compacting changes nothing that the session has read. What it has not read, it still has to read first."""
    writer, other = daemon.client("writer"), daemon.client("other")
    for key in ("mine", "shared", "tiny"):
        text = writer.text(key)
        for _ in range(1 if key == "tiny" else 50):
            text.insert(0, "ab")
        text.read()
    other.text("shared").insert(0, "unseen ")
    for key in ("mine", "shared", "tiny"):
        writer.text(key).compact()
    assert writer.delete("mine")
    assert writer.delete("tiny")
    with pytest.raises(StaleRead):
        writer.delete("shared")
    assert other.text("shared").read().startswith("unseen ab")


def test_late_edits_after_a_compaction_and_a_deletion_come_through(pair: Cluster) -> None:
    pair.wait_connected()
    ann, bob = pair[0].client("ann"), pair[1].client("bob")
    for key in ("compacted", "deleted"):
        ann.text(key).set("one two three " * 20)
    wait_until_equal(pair)
    for key in ("compacted", "deleted"):
        bob.text(key).read()
    pair.cut(0, 1)
    pair.wait_parted(0, 1)
    for _ in range(20):
        ann.text("compacted").insert(0, "x")
        ann.text("compacted").delete(0, 1)
    ann.text("compacted").compact()
    ann.delete("deleted")
    for key in ("compacted", "deleted"):
        bob.text(key).insert(0, "late ")
    pair.heal(0, 1)
    pair.wait_connected()
    wanted = "late " + "one two three " * 20
    for client in (ann, bob):
        for key in ("compacted", "deleted"):
            wait_until(partial(_reads, client, key, wanted), what=f"{key} reads right")
    wait_until_equal(pair)
    for daemon in pair:
        assert daemon.space()["siblings"] == 0
        assert daemon.alarms() == []


def test_a_text_made_on_two_hosts_at_once_is_merged_by_request(pair: Cluster) -> None:
    pair.wait_connected()
    ann, bob = pair[0].client("ann"), pair[1].client("bob")
    pair.cut(0, 1)
    pair.wait_parted(0, 1)
    ann.text("notes").set("title\nfrom ann\n")
    bob.text("notes").set("title\nfrom bob\n")
    pair.heal(0, 1)
    pair.wait_connected()
    wait_until_equal(pair)
    assert _siblings(bob) == 1
    bob.resolve("notes", merge=True)
    wait_until_equal(pair)
    for client in (ann, bob):
        assert sorted(client.text("notes").read().splitlines()) == ["from ann", "from bob", "title"]
        assert _siblings(client) == 0


def _reads(client: Client, key: str, wanted: str) -> bool:
    return client.text(key).read() == wanted


def _siblings(client: Client) -> int:
    entry = client.entry("notes")
    assert entry is not None
    return len(entry.siblings)


# -- edits that are none, and wrong positions ------------------------------------------------------------------------


@pytest.mark.parametrize("position", [1.0, "1", None, True])
def test_a_position_is_a_whole_number(daemon: Daemon, position: Any) -> None:
    text = daemon.client().text("notes")
    text.set("abc")
    for act in (lambda: text.insert(position, "x"), lambda: text.delete(position, 1), lambda: text.delete(0, position)):
        with pytest.raises(InvalidRequest, match="must be a whole number"):
            act()
    assert text.read() == "abc"


def test_an_edit_that_changes_nothing_is_no_write(daemon: Daemon) -> None:
    state = daemon.client()
    text = state.text("notes")
    token = text.set("abc")
    before = daemon.space()["log_changes"]
    for edit in (text.insert(1, ""), text.delete(2, 0), text.set("abc"), text.set("abc", w="all")):
        assert daemon.client().text("notes").read(after=edit) == "abc"
        assert edit.document == token.document
    assert daemon.space()["log_changes"] == before
    with pytest.raises(InvalidRequest, match="outside of the text"):
        text.insert(4, "")
    absent = state.text("absent")
    absent.insert(0, "")
    assert state.keys() == ["notes"]
    absent.set("")
    assert state.keys() == ["absent", "notes"], "setting an empty text makes it"


def test_the_command_line_says_so(daemon: Daemon, tmp_path: Path) -> None:
    shell = Shell(daemon.socket, tmp_path)
    shell.ok("text", "notes", "--insert", "0", "abc")
    before = daemon.space()["log_changes"]
    token = shell.ok("text", "notes", "--insert", "1", "")
    assert shell.ok("text", "notes", "--after", token) == "abc"
    assert daemon.space()["log_changes"] == before
    done = shell("text", "nosuch", "--compact")
    assert (done.status, done.err) == (1, "crdtsync: 'nosuch' does not exist\n")


def test_a_mistyped_dot_is_refused_at_once(pair: Cluster, tmp_path: Path) -> None:
    shell = Shell(pair[0].socket, tmp_path)
    shell.ok("set", "k", "1")
    pair[1].client().set("j", 1)
    wait_until_equal(pair)
    for writer in pair[0].space()["version_vector"]:
        done = shell("resolve", "k", "--take", f"{writer}.4711.0", "--timeout", "50s")
        assert done.status == 1
        assert "no node is known that does" in done.err
