"""Editors at real daemons: typing while others edit, a daemon killed in the middle, and refusals."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from itertools import count
from threading import Event, Thread
from time import monotonic

import pytest

from crdtsync import AsyncClient
from crdtsync.client import Editor
from crdtsync.errors import DaemonUnavailable, InvalidRequest, KindMismatch, Timeout, TooLarge
from crdtsync.wire.limits import TEXT_BYTES_MAX
from tests.harness import Cluster, Daemon
from tests.harness.workers import in_a_child

WAIT_S = 60.0


def until(condition: Callable[[], bool], news: Event) -> None:
    """Wait for what the editor tells of."""
    deadline = monotonic() + WAIT_S
    while not condition():
        assert news.wait(max(deadline - monotonic(), 0)), "it did not come in time"
        news.clear()


def type_backwards(notes: Editor, words: list[str]) -> None:
    for word in reversed(words):
        notes.insert(0, word)


def test_people_and_agents_type_into_one_text_while_a_daemon_is_killed(pair: Cluster) -> None:
    """An agent streams, another streams beside it, a third edits without an editor: nothing is lost or doubled."""
    agent, other, plain = pair[0].client("agent"), pair[1].client("other"), pair[1].client("plain")
    agent.wait(plain.text("notes").set("título 🦊\n"))
    news, seen = Event(), Event()
    with agent.editor("notes", on_change=news.set) as notes, other.editor("notes", on_change=seen.set) as theirs:
        assert notes.read() == theirs.read() == "título 🦊\n"
        streamed = [f"uno{number}é " for number in range(300)]
        beside = [f"dos{number}漢 " for number in range(300)]
        stream = Thread(target=type_backwards, args=(theirs, beside))
        stream.start()
        for number, word in enumerate(streamed):
            for letter in word:
                notes.append(letter)
            if number == 100:
                pair[0].kill()
            if number == 200:
                plain.text("notes").insert(0, "tres ")
        stream.join()
        assert notes.unsent > 0
        assert notes.error is None
        with pytest.raises(Timeout, match="are not on disk yet"):
            notes.flush(timeout=0.05)
        pair[0].start()
        token = notes.flush(w=2)
        assert notes.unsent == 0
        assert notes.changes < 300, "many keystrokes are one change"
        assert agent.get("notes", after=theirs.flush(w=2)) == plain.get("notes", after=token)
        whole = plain.get("notes")
        assert "".join(streamed) in whole
        assert "".join(beside) in whole
        assert (whole.count("tres"), whole.count("título"), len(whole.split())) == (1, 1, 603)
        until(lambda: notes.read() == whole, news)
        until(lambda: theirs.read() == whole, seen)
        at = notes.shown.index("tres")
        notes.replace(at, 4, "cuatro")
        plain.text("notes").compact()
        notes.insert(at, "¡")
        token = notes.flush()
        plain.wait(token)
        until(lambda: "¡cuatro" in theirs.read(), seen)
        assert "¡cuatro" in plain.get("notes")
    with pytest.raises(DaemonUnavailable, match="closed"):
        notes.append("x")


def test_a_compacted_text_is_read_also_while_another_thread_types_on(daemon: Daemon) -> None:
    """The editor goes on in the new document when nothing is unsent, and so has a reader wait for such a moment."""
    others = daemon.client("others").text("notes")
    others.set("end\n")
    news, is_over = Event(), Event()

    def type_on() -> None:
        for number in count():
            if is_over.wait(0.0005):
                break
            notes.insert(0, f"typed{number}\n")

    def is_read(line: str) -> bool:
        return line in notes.read()

    with daemon.client("typist").editor("notes", on_change=news.set) as notes:
        typing = Thread(target=type_on)
        typing.start()
        for number in range(5):
            others.insert(0, "gone " * 200)
            others.delete(0, 1000)
            others.compact()
            others.insert(0, f"read{number}\n")
            until(partial(is_read, f"read{number}\n"), news)
        is_over.set()
        typing.join()
        notes.flush()
        lines = others.read().splitlines()
        typed = [line for line in lines if line.startswith("typed")]
        assert sorted(typed) == sorted({f"typed{number}" for number in range(len(typed))})
        assert sorted(lines) == sorted([*typed, *(f"read{number}" for number in range(5)), "end"])


@pytest.mark.parametrize("reads", [False, True])
def test_a_callback_that_types_keeps_no_reader_waiting_and_is_not_called_for_ever(daemon: Daemon, reads: bool) -> None:
    others = daemon.client("others").text("notes")
    others.set("end\n")
    calls = 0
    is_held, may_go_on, news = Event(), Event(), Event()

    def change() -> None:
        nonlocal calls
        calls += 1
        news.set()
        if calls == 1:  # all that comes meanwhile is told in one call
            is_held.set()
            may_go_on.wait(WAIT_S)
        elif calls < 20:
            notes.append("x")
            if reads:
                notes.read()

    with daemon.client("typist").editor("notes", on_change=change) as notes:
        notes.read()
        others.insert(0, "one ")
        assert is_held.wait(WAIT_S)
        others.insert(0, "gone " * 200)
        others.delete(0, 1000)
        others.compact()
        others.insert(0, "new ")
        may_go_on.set()
        until(lambda: notes.read().startswith("new one end\n"), news)
        notes.flush()
        assert set(others.read().removeprefix("new one end\n")) <= {"x"}
        assert calls < 20


async def test_under_asyncio(pair: Cluster) -> None:
    async with AsyncClient(pair[0].socket, agent="a") as one, AsyncClient(pair[1].socket, agent="b") as two:
        changed = asyncio.Event()
        async with one.editor("notes") as notes:
            await notes.append("first ")
            notes.send()
            await notes.append("second")
            token = await notes.flush(w=2)
            assert notes.token == token
            async with two.editor("notes", on_change=changed.set) as theirs:
                assert await theirs.read() == "first second"
                await notes.insert(6, "one, ")
                await asyncio.wait_for(changed.wait(), WAIT_S)
                assert (theirs.shown, theirs.unread) == ("first second", 1)
                await theirs.delete(0, 6)  # as it was read
                assert len(theirs) == 6
                await theirs.flush(w=2)
                assert await theirs.read() == "one, second"
            await notes.read()
            await notes.set("one and two")
        assert await one.get("notes") == "one and two"


def test_refusals_keep_what_was_typed(daemon: Daemon) -> None:
    root = daemon.client("root")
    root.set("register", 1)
    with pytest.raises(KindMismatch):
        root.editor("register")
    notes = root.editor("notes")
    notes.append("kept")
    notes.flush()
    with notes._state.lock:  # else it may learn of this, and refuse, before the next word is typed
        root.delete("notes")
        root.set("notes", 1)
    notes.append(" and refused")
    with pytest.raises(KindMismatch):
        notes.flush()
    with pytest.raises(KindMismatch):
        notes.append("more")
    assert (notes.unsent, notes.shown) == (1, "kept and refused")
    root.delete("notes")
    notes.flush()
    assert notes.unsent == 0
    assert root.get("notes") == "kept and refused"
    with pytest.raises(InvalidRequest):
        notes.insert(99, "x")
    root.text("notes").insert(0, "well ")
    notes.append(" lost")
    assert notes.discard() in ("well kept and refused", "well kept and refused lost")  # it may have been on its way
    notes.append(".")

    def type_on() -> None:
        with pytest.raises(InvalidRequest):
            notes.append("child")

    in_a_child(type_on)
    root.close()  # sends what is left
    assert daemon.client("reader").get("notes").endswith(".")


def test_a_text_that_hosts_make_too_long_breaks_no_mirror(cluster: Cluster) -> None:
    """Each fills it while they are apart: together that is more than fits into a frame."""
    clients = here, there, other = [daemon.client("agent") for daemon in cluster]
    here.set("m/small", 1)
    begun = here.text("m/long").insert(0, "-")
    there.wait(begun)
    other.wait(begun)
    mirror = there.mirror("m/")
    editors = [client.editor("m/long") for client in clients]
    for daemon in cluster:
        cluster.isolate(daemon)
    tokens = []
    for editor in editors:
        for _ in range(8):
            editor.append("0123456" * (TEXT_BYTES_MAX // 56))
        editor.append("." * (TEXT_BYTES_MAX - len(editor.shown)))
        tokens.append(editor.flush())
        assert len(editor.shown) == TEXT_BYTES_MAX
    editors[1].append("!")
    with pytest.raises(TooLarge, match="delete some of it first"):
        editors[1].flush()
    assert len(editors[1].discard()) == TEXT_BYTES_MAX
    mirror.wait(tokens[1])
    assert mirror["m/long"].endswith("...")
    editors[1].delete(0, 1)
    there.wait(editors[1].flush())
    cluster.heal()
    for token in tokens:
        here.wait(token)
        there.wait(token)
    written = here.set("m/small", 2)
    there.wait(written)
    for one in (mirror, there.mirror("m/"), here.mirror("m/")):
        one.wait(written)  # that its daemon holds it does not say that it has been told
        assert one["m/small"] == 2
        with pytest.raises(TooLarge, match="too large for a mirror"):
            _ = one["m/long"]
    with pytest.raises(TooLarge, match="can only be deleted"):
        there.get("m/long")
    there.delete("m/long")
    there.set("m/long", "short")
    assert mirror["m/long"] == "short"
