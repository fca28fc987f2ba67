"""Texts on real daemons: their size after many keystrokes, agents that hold an older document, late edits, merges."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from crdtsync import Client
from crdtsync.errors import InvalidRequest, StaleRead, TooLarge, VersionMismatch
from tests.harness.cluster import Cluster, wait_until, wait_until_equal
from tests.harness.daemon import Daemon
from tests.harness.shell import Shell

pytestmark = pytest.mark.integration

KEYSTROKES = 2_000
TEXT_CHARS = 300


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


def test_after_many_keystrokes_a_compaction_forgets_what_was_deleted(daemon: Daemon) -> None:
    client = daemon.client()
    content = type_at_random(client, "typed", KEYSTROKES, Random(1))
    text = client.text("typed")
    assert text.read() == content
    written = text.compact()
    assert written.bytes_after < written.bytes_before / 3
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
        text.insert(0, "ab")
        for _ in range(0 if key == "tiny" else 50):
            text.insert(0, "xy")
            text.delete(0, 2)
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


def test_a_position_is_a_whole_number(daemon: Daemon) -> None:
    text = daemon.client().text("notes")
    text.set("abc")
    wrong: tuple[Any, ...] = (1.0, "1", None, True)
    for position in wrong:
        with pytest.raises(InvalidRequest, match="must be a whole number"):
            text.insert(position, "x")
        for arguments in ((position, 1), (0, position)):
            with pytest.raises(InvalidRequest, match="must be a whole number"):
                text.delete(*arguments)
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


# -- long ones -----------------------------------------------------------------------------------------------------

MIB = 1024 * 1024
BOUND_BYTES = 3840 * 1024


def read_anew(daemon: Daemon, key: str) -> str:
    with Client(socket=daemon.socket, agent="reader") as client:
        return client.text(key).read()


@pytest.mark.parametrize("letters", ["abc \n", "é漢🦊 x"], ids=["ascii", "unicode"])
def test_a_text_of_any_length_up_to_the_bound_is_set_and_edited_at_once(pair: Cluster, letters: str) -> None:
    daemon = pair[0]
    client = daemon.client("ann", timeout=60)
    text = client.text("long")
    whole = "".join(Random(1).choices(letters, k=BOUND_BYTES))
    whole = whole.encode()[: BOUND_BYTES - 2000].decode(errors="ignore")
    before = client.status()["spaces"][0]["log_changes"]
    written = text.set(whole)
    assert text.read() == read_anew(daemon, "long") == whole
    assert client.status()["spaces"][0]["log_changes"] == before + 1, "it is one change"
    assert written.document is not None
    text.insert(len(whole) // 2, "x")
    assert read_anew(daemon, "long") == whole[: len(whole) // 2] + "x" + whole[len(whole) // 2 :]
    text.set("short again")
    part = whole[: len(whole) // 3]
    assert len(part.encode()) > MIB
    text.insert(5, part)
    assert read_anew(daemon, "long") == f"short{part} again"
    wait_until_equal(pair)
    assert read_anew(pair[1], "long") == f"short{part} again"


def test_what_is_over_the_bound_is_refused_and_nothing_of_it_is_done(client: Client, daemon: Daemon) -> None:
    text = client.text("long")
    text.set("here")
    with pytest.raises(
        TooLarge, match=r"the text 'long' would have 4,\d+,\d+ bytes of UTF-8; at most 3,932,160 fit"
    ) as error:
        text.insert(2, "x" * 4_000_000)
    assert "batch" not in str(error.value), "its author made none"
    assert error.value.index is None
    assert text.read() == read_anew(daemon, "long") == "here"
    with pytest.raises(VersionMismatch):
        text.set("y" * 2 * MIB, if_absent=True)
    assert read_anew(daemon, "long") == "here"
    client.text("new").set("y" * 2 * MIB, if_absent=True)
    assert read_anew(daemon, "new") == "y" * 2 * MIB
    with pytest.raises(TooLarge, match="make it in several, which may be one batch"):
        text.apply(b"\0" * (MIB + 1))


def test_a_text_that_differs_in_very_many_places_is_set_at_once(client: Client, daemon: Daemon) -> None:
    text = client.text("long")
    words = [f"{number:06}" for number in range(100_000)]
    text.set(" ".join(words))
    changed = " ".join(word if number % 3 else f"{word}x" for number, word in enumerate(words))
    text.set(changed)
    assert text.read() == read_anew(daemon, "long") == changed


def test_an_editor_takes_as_much_at_once(client: Client, daemon: Daemon) -> None:
    with client.editor("long") as editor:
        editor.insert(0, "ab")
        editor.insert(1, "x" * 3 * MIB)
        editor.flush()
    assert read_anew(daemon, "long") == "a" + "x" * 3 * MIB + "b"
