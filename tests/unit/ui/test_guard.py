"""Who is let in to the page, and what JSON it gets."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from crdtsync.ui.guard import Doorkeeper, Guard
from crdtsync.ui.plain import number, plain, written

HOST = ("host", "127.0.0.1:7479")
OWN = ("origin", "http://127.0.0.1:7479")
LOCAL = ("origin", "http://localhost:7479")


def test_a_word_lets_one_browser_in_once():
    words: list[str] = []
    keeper = Doorkeeper(words.append)
    assert keeper.let_in("guess") is None
    first = keeper.let_in(words[0])
    assert first is not None
    assert keeper.is_in(*first)
    assert not keeper.is_in(first[0], "")
    assert keeper.let_in(words[0]) is None, "who finds the word later finds nothing"
    assert len(words) == 2
    second = keeper.let_in(words[1])
    assert second is not None
    assert keeper.is_in(*first)
    assert not keeper.is_in(first[0], second[1]), "each cookie goes with its own path"


@pytest.fixture
def keeper() -> tuple[Doorkeeper, str, str]:
    words: list[str] = []
    made = Doorkeeper(words.append)
    found = made.let_in(words[0])
    assert found is not None
    return made, *found


def ask(keeper: Doorkeeper, method: str, path: str, *headers: tuple[str, str]) -> tuple[int, dict[bytes, bytes]]:
    """The status that the guard or, behind it, an application that always says 200 gives, with the headers."""
    sent: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"cache-control", b"public")]})

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        raise AssertionError

    given = [(name.encode(), value.encode()) for name, value in headers]
    scope = {"type": "http", "method": method, "path": path, "headers": given}
    guard = Guard(app, keeper, ["127.0.0.1:7479", "localhost:7479"], is_tls=False, cookie="c")
    asyncio.run(guard(scope, receive, send))
    return sent[0]["status"], dict(sent[0]["headers"])


@pytest.mark.parametrize(
    "status, method, path, headers",
    [
        (200, "GET", "/", [HOST]),
        (200, "GET", "/assets/app.js", [HOST]),
        (200, "POST", "/login", [HOST, OWN]),
        (200, "GET", "{place}/live", [HOST, ("cookie", "x=1; c={cookie}")]),
        (200, "POST", "{place}/api/entry", [("host", "LOCALHOST:7479"), LOCAL, ("cookie", "c={cookie}")]),
        (401, "GET", "{place}/live", [HOST]),
        (401, "GET", "{place}/live", [HOST, ("cookie", "c=guess")]),
        (401, "GET", "{place}/live", [HOST, ("cookie", "\x01;;=c={")]),
        (401, "POST", "{place}/api/entry", [HOST, OWN]),
        (403, "POST", "{place}/api/write", [HOST, ("cookie", "c={cookie}")]),
        (403, "POST", "{place}/api/write", [HOST, ("origin", "https://evil.example"), ("cookie", "c={cookie}")]),
        (403, "POST", "{place}/api/write", [HOST, ("origin", "null"), ("cookie", "c={cookie}")]),
        (403, "POST", "{place}/api/write", [HOST, ("origin", "http://127.0.0.1:8000"), ("cookie", "c={cookie}")]),
        (403, "GET", "{place}/live", [HOST, ("origin", "https://evil.example"), ("cookie", "c={cookie}")]),
        (421, "GET", "/", [("host", "evil.example:7479")]),
        (421, "GET", "/", [("host", "127.0.0.1:7479@evil.example")]),
        (421, "GET", "/", []),
        (401, "GET", "/loginx", [HOST]),
        (401, "GET", "/live", [HOST, ("cookie", "c={cookie}")]),
        (401, "GET", "/in-guess/live", [HOST, ("cookie", "c={cookie}")]),
    ],
)  # fmt: skip
def test_only_this_page_in_a_browser_that_is_in_may_ask(
    keeper: tuple[Doorkeeper, str, str], status: int, method: str, path: str, headers: list[tuple[str, str]]
):
    given = [(name, value.replace("{cookie}", keeper[2])) for name, value in headers]
    answered, sent = ask(keeper[0], method, path.replace("{place}", keeper[1]), *given)
    assert answered == status
    assert b"default-src 'none'" in sent[b"content-security-policy"]
    assert b"'unsafe" not in sent[b"content-security-policy"]
    assert sent[b"cache-control"] == b"no-store"


def test_all_that_agents_write_becomes_json():
    value = {"n": 1 << 60, "f": float("inf"), "b": b"\x00\xff", "s": {1}, "t": (None, True), 3: "three"}
    assert plain(value) == {
        "n": {"$int": str(1 << 60)}, "f": {"$float": "inf"}, "b": {"$bytes": 2, "hex": "00ff"}, "s": [1],
        "t": [None, True], "3": "three",
    }  # fmt: skip
    assert json.loads(json.dumps(plain(value)), object_hook=number)["n"] == 1 << 60
    assert number({"$int": "9" * 400}) == {"$int": "9" * 400}
    assert plain(datetime(2026, 11, 20, tzinfo=UTC)) == "2026-11-20T00:00:00+00:00"
    assert plain(timedelta(minutes=1)) == 60.0
    assert plain(bytes(1 << 20)) == {"$bytes": 1 << 20, "hex": "00" * 256}


@pytest.mark.parametrize("name", ["$int", "$float", "$bytes", "$cut", "$$cut", "$ref", "$", "$$", "int"])
def test_what_agents_call_by_the_names_of_the_page_is_shown_and_written_as_it_is(name: str):
    value = {name: "5", "more": [{name: {name: 1 << 60}}]}
    shown = written(value)
    assert not {"$int", "$float", "$bytes", "$cut"} & {*shown}
    assert json.loads(json.dumps(shown), object_hook=number) == value
