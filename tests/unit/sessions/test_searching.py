"""What a search reads of a saved session: all that was said, however much of it was read before."""

from __future__ import annotations

import json
from typing import Any

import pytest

from crdtsync.context.search.passages import Said
from crdtsync.sessions.saved.pieces import START, chain, elements, large, recent
from crdtsync.sessions.searching import LARGE_CHARS, blobs_of, header_of, said, said_in_large

CODEX = {"agent": "codex"}
TIME = "2026-11-20T10:00:{:02}Z"


def line(number: int, text: str = "") -> bytes:
    content = [{"type": "input_text", "text": text or f"what was said as number {number}, at some length " * 20}]
    payload = {"type": "message", "role": "user", "content": content}
    record = {"timestamp": TIME.format(number), "type": "response_item", "payload": payload}
    return json.dumps(record).encode() + b"\n"


def saved(*saves: list[bytes]) -> list[Any]:
    """The log of a session that was saved so many times, each time with these lines more."""
    log: list[Any] = []
    end, before = START, b""
    for lines in saves:
        pieces = list(chain(lines, end))
        log += [element for element, _ in elements(pieces, before)]
        for piece in pieces:
            end, before = piece.digest, recent(before, piece.content) or b""
    return log


def texts(found: Said | None) -> list[str]:
    assert found is not None
    return [text for text, _ in found.texts]


SAVES = [[line(0), line(1, "short")], [line(2)], [line(3, "short, too"), line(4)], [line(n) for n in range(5, 40)]]


@pytest.mark.parametrize("cut", range(1, len(SAVES) + 1))
def test_reading_on_gives_what_reading_all_gives(cut: int) -> None:
    log = saved(*SAVES)
    whole, first = said(CODEX, log, None), said(CODEX, log[:cut], None)
    assert whole is not None
    assert first is not None
    assert first.mark is not None
    assert whole.texts[1] == ("short", TIME.format(1))
    more = said(CODEX, log[cut - 1 :], first.mark)
    assert more is not None
    assert (first.is_more, more.is_more) == (False, True)
    assert first.texts + more.texts == whole.texts
    assert more.mark == whole.mark == (len(log), whole.mark and whole.mark[1])


def test_what_does_not_go_on_from_there_is_read_anew() -> None:
    log = saved(*SAVES)
    first = said(CODEX, log[:2], None)
    assert first is not None
    other = saved(SAVES[0], [line(50)], [line(51)])
    assert said(CODEX, other[1:], first.mark) is None
    assert said(CODEX, [], first.mark) is None
    assert said(CODEX, [log[1], other[2]], first.mark) is None, "it is packed with what was not read"
    assert said(CODEX, [log[1], log[3]], first.mark) is None, "something between is missing"


def test_branches_and_torn_lines_are_read_as_far_as_they_go() -> None:
    torn = [line(0, "before"), line(1, "whole in the end")[:20]]
    log = saved(torn)
    assert said(CODEX, log, None) == Said((("before", TIME.format(0)),), None)
    log += saved([line(0, "before"), line(1, "whole in the end"), line(2, "after")])
    log += saved([line(0, "before"), line(3, "on another host")])
    assert texts(said(CODEX, log, None)) == ["before", "whole in the end", "after", "on another host"]


@pytest.mark.parametrize("cut", [1, 2, 3])
def test_of_a_large_line_the_beginning_is_read_where_it_stands(cut: int) -> None:
    long = line(1, "a long answer, " + "word " * 200_000)
    log = saved([line(0, "before")], [long], [line(2, "after")])
    ((place, element),) = blobs_of("sessions.lines/019a/main", log).items()
    assert place.startswith("sessions.lines/019a/.large/")
    known = {element[2]: said_in_large(CODEX, element, large(long))}
    ((text, time),) = known[element[2]]
    assert (text[:15], len(text), time) == ("a long answer, ", LARGE_CHARS, TIME.format(1))
    first = said(CODEX, log[:cut], None, known)
    assert first is not None
    more = said(CODEX, log[cut - 1 :], first.mark, known) if first.mark else said(CODEX, log, None, known)
    found = texts(first) * bool(first.mark) + texts(more)
    assert [one[:15] for one in found] == ["before", "a long answer, ", "after"]
    assert texts(said(CODEX, log, None)) == ["before", "after"], "its blob is not here"


def test_a_blob_that_is_none_says_nothing() -> None:
    element = [b"", 600_000, b"d" * 12]
    assert said_in_large(CODEX, element, b"no zlib") == ()
    assert blobs_of("sessions.lines/019a/main", [[b"", 1 << 40, b"d"], ["x", 5, b"d"], None, "x"]) == {}


def test_what_a_sub_agent_says_is_read() -> None:
    record = {"type": "user", "uuid": "u", "isSidechain": True, "message": {"role": "user", "content": "look aside"}}
    log = saved([json.dumps(record).encode() + b"\n"])
    assert texts(said({"agent": "claude-code"}, log, None)) == ["look aside"]


def test_what_is_no_session_says_nothing() -> None:
    log = saved(*SAVES)
    assert said(None, log, None) == said({"agent": "unknown"}, log, None) == Said((), None)
    assert texts(said(CODEX, ["x", None, [b"", b"", b""], [b"", "no json\n"]], None)) == []
    assert header_of("sessions.lines/019a/main") == "sessions/019a"
    assert header_of("sessions.lines/019a/subagents/x.jsonl") == "sessions/019a"
    assert header_of("sessions.lines/019a/notes/picture.png") is None
    assert header_of("plan/sessions.lines/019a/main") is None
