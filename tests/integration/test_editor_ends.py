"""The ends of editors at a real daemon: forks, closing that fails or is interrupted, and giving up what was typed."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from threading import Event
from typing import Any

import pytest

from crdtsync import AsyncClient
from crdtsync.client import AsyncEditor, Editor
from crdtsync.errors import DaemonUnavailable, InvalidRequest, KindMismatch, Timeout
from tests.harness import Daemon
from tests.harness.workers import in_a_child

WAIT_S = 60.0
USES: dict[str, Callable[[Any], Any]] = {
    "append": lambda editor: editor.append("x"),
    "changes": lambda editor: editor.changes,
    "delete": lambda editor: editor.delete(0, 1),
    "discard": lambda editor: editor.discard(),
    "error": lambda editor: editor.error,
    "flush": lambda editor: editor.flush(),
    "insert": lambda editor: editor.insert(0, "x"),
    "len": len,
    "read": lambda editor: editor.read(),
    "replace": lambda editor: editor.replace(0, 1, "x"),
    "send": lambda editor: editor.send(),
    "set": lambda editor: editor.set("x"),
    "shown": lambda editor: editor.shown,
    "token": lambda editor: editor.token,
    "unread": lambda editor: editor.unread,
    "unsent": lambda editor: editor.unsent,
}
CLOSED_USES = ("append", "delete", "discard", "flush", "insert", "read", "replace", "send", "set")


def refused(editor: object) -> list[str]:
    """The uses of it that raise InvalidRequest, under asyncio at once."""
    found = []
    for name, use in USES.items():
        try:
            result = use(editor)
            if asyncio.iscoroutine(result):
                result.send(None)
        except InvalidRequest:
            found.append(name)
    return found


def test_a_forked_child_is_refused_at_once_whatever_locks_were_held(daemon: Daemon) -> None:
    client, other, come = daemon.client("one"), daemon.client("two"), Event()
    with client.editor("notes", on_change=come.set) as notes:
        other.text("notes").insert(0, "unread")
        assert come.wait(WAIT_S)
        assert notes.unread

        def use() -> None:
            assert refused(notes) == [*USES]
            notes.close()
            client.close()

        with notes._state.lock:  # as another thread of the parent may hold it
            in_a_child(use)
        assert notes.read() == "unread"
        notes.append(" and on")
        assert other.get("notes", after=notes.flush()) == "unread and on"


async def test_a_forked_child_under_asyncio(daemon: Daemon) -> None:
    async with AsyncClient(daemon.socket, agent="one") as client, client.editor("notes") as notes:
        await notes.append("parent")

        def use() -> None:
            assert refused(notes) == [*USES]
            with pytest.raises(StopIteration):
                notes.close().send(None)

        with notes._state.lock:
            in_a_child(use)
        await notes.flush()
        assert await client.get("notes") == "parent"


@pytest.mark.filterwarnings("error")
def test_a_closed_editor_says_so(daemon: Daemon) -> None:
    client, come = daemon.client("one"), Event()
    notes = client.editor("notes", on_change=come.set)
    daemon.client("two").text("notes").insert(0, "unread")
    assert come.wait(WAIT_S)
    notes.close()
    assert notes.unread
    for name in CLOSED_USES:
        with pytest.raises(DaemonUnavailable, match="closed"):
            USES[name](notes)
    notes.close()


async def test_a_closed_editor_says_so_under_asyncio(daemon: Daemon) -> None:
    async with AsyncClient(daemon.socket, agent="one") as client:
        notes = client.editor("notes")
        with pytest.raises(InvalidRequest, match="has not begun"):
            await notes.append("lost")
        async with notes:
            await notes.append("word")
        assert await client.get("notes") == "word"
        for name in CLOSED_USES:
            with pytest.raises(DaemonUnavailable, match="closed"):
                await USES[name](notes)
        with pytest.raises(DaemonUnavailable, match="closed"):
            await notes.attach()
        await notes.close()


async def test_a_cancelled_close_can_be_done_again(daemon: Daemon) -> None:
    async with AsyncClient(daemon.socket, agent="one") as client:
        notes = client.editor("notes")
        await notes.attach()
        for _ in range(2000):
            await notes.append("x")
        closing = asyncio.create_task(notes.close())
        await asyncio.sleep(0)
        with pytest.raises(DaemonUnavailable, match="closed"):
            await notes.append("while it closes")
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        await notes.append("y")
        assert notes.unsent
        await notes.close()
        assert notes.unsent == 0
        assert await client.get("notes") == "x" * 2000 + "y"


class Interrupted(BaseException):
    """As a KeyboardInterrupt, which would end the tests."""


def interrupt(_signal: int, _frame: object) -> None:
    raise Interrupted


def test_a_close_that_was_interrupted_can_be_done_again_and_one_that_failed_says_so_again(daemon: Daemon) -> None:
    client = daemon.client("one")
    notes, lost, beside = client.editor("notes"), client.editor("lost"), client.editor("beside")
    daemon.kill()
    for editor in (notes, lost, beside):
        editor.append("typed")
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with pytest.raises(Interrupted):
            notes.close()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    with pytest.raises(InvalidRequest, match="negative"):
        notes.close(timeout=-1)
    for _ in range(2):
        with pytest.raises(Timeout, match="1 edits of 'lost' are not on disk"):
            lost.close(timeout=0.05)
    assert lost.unsent == 1
    assert not lost._thread.is_alive()
    daemon.start()
    notes.append(" more")
    client.close()  # not a word of what was told
    assert notes.unsent == beside.unsent == 0
    reader = daemon.client("reader")
    assert [reader.get(key) for key in ("notes", "lost", "beside")] == ["typed more", None, "typed"]


def test_one_editor_that_fails_does_not_keep_the_others_from_closing(daemon: Daemon) -> None:
    client = daemon.client("one")
    good, bad, fine = client.editor("good"), client.editor("bad"), client.editor("fine")
    client.set("bad", 1)
    for editor in (good, bad, fine):
        editor.append("typed")
    with pytest.raises(KindMismatch):
        client.close()
    assert not any(editor._thread.is_alive() for editor in (good, bad, fine))
    reader = daemon.client("reader")
    assert [reader.get(key) for key in ("good", "bad", "fine")] == ["typed", 1, "typed"]


def type_and_flush(notes: Editor, text: str) -> None:
    """Either may say that it is refused: the editor may have been told before."""
    notes.append(text)
    notes.flush()


def test_discarding_gives_up_what_was_typed_when_the_key_is_of_another_kind(daemon: Daemon) -> None:
    client = daemon.client("one")
    with client.editor("notes") as notes:
        notes.append("kept")
        notes.flush()
        client.delete("notes")
        client.set("notes", 1)
        with pytest.raises(KindMismatch):
            type_and_flush(notes, " refused")
        assert notes.discard() == ""
        assert (notes.unsent, notes.error, notes.shown) == (0, None, "")
        for _ in range(2):
            notes.append("again")
            with pytest.raises(KindMismatch):
                notes.flush()
            assert notes.unsent == 1
            assert notes.discard() == ""
        client.delete("notes")
        notes.append("a text")
        assert client.get("notes", after=notes.flush()) == "a text"


async def test_flushing_never_takes_what_was_given_up_for_stored(daemon: Daemon) -> None:
    async with AsyncClient(daemon.socket, agent="one") as client, client.editor("notes") as notes:
        daemon.kill()
        await notes.append("given up")
        flushing = asyncio.create_task(notes.flush())
        await asyncio.sleep(0)
        with pytest.raises(Timeout):
            await notes.discard(timeout=0.05)
        assert notes.unsent == 0
        with pytest.raises(InvalidRequest, match="given up"):
            await flushing
        daemon.start()
        assert await notes.discard() in ("", "given up")  # it was on its way


async def test_timeouts_are_checked(daemon: Daemon) -> None:
    async with AsyncClient(daemon.socket, agent="one") as client, client.editor("notes") as notes:
        with daemon.client("two").editor("notes") as other:
            for duration in (-1, float("nan"), "1"):
                await check_timeouts(notes, other, duration)
            assert (notes.unsent, other.unsent) == (0, 0)


async def check_timeouts(notes: AsyncEditor, other: Editor, duration: Any) -> None:
    arguments: dict[str, tuple[object, ...]] = {
        "append": ("x",),
        "close": (),
        "delete": (0, 0),
        "discard": (),
        "flush": (),
        "insert": (0, "x"),
        "read": (),
        "replace": (0, 0, "x"),
        "set": ("x",),
    }
    for name, given in arguments.items():
        with pytest.raises(InvalidRequest, match="timeout must"):
            await getattr(notes, name)(*given, timeout=duration)
        with pytest.raises(InvalidRequest, match="timeout must"):
            getattr(other, name)(*given, timeout=duration)
