"""A saved session as a search finds it: what was said and done in it, and when.

Its lines are read one by one, in the order in which they were saved. So what its agent no longer sees, before a
compaction or on another branch, or in the file of a sub-agent, is found, too, and a session that goes on costs what
its new lines cost. A large line is a blob: the beginnings of its texts are read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from crdtsync.context.search.passages import Mark, Said
from crdtsync.sessions.agents.agent import CodingAgent
from crdtsync.sessions.agents.places import AGENTS
from crdtsync.sessions.conversation.record import text_of
from crdtsync.sessions.saved.header import HEADERS, LINES, MAIN, large_key
from crdtsync.sessions.saved.pieces import DIGEST_BYTES, START, Piece, PieceTree, end_of, with_large

Texts = tuple[tuple[str, str], ...]
LARGE_BYTES_MAX = 32 * 1024 * 1024
"""Bytes of a large line that is read, and of its blob."""
LARGE_CHARS = 50_000
"""Characters of each text of a large line: more would leave no room for the rest of its session."""
_ASIDE = re.compile(rb'"isSidechain": ?true')
_TRANSCRIPT = ".jsonl"


def header_of(key: str) -> str | None:
    """The key of the record of the session whose lines are under ``key``; None: there are none that are searched."""
    session, _, file = key.removeprefix(LINES).partition("/")
    is_read = key.startswith(LINES) and (file == MAIN or file.endswith(_TRANSCRIPT))
    return HEADERS + session if is_read else None


def blobs_of(key: str, elements: Iterable[Any]) -> dict[str, Any]:
    """The large lines to be read among ``elements`` of the log ``key``, each by the key of its blob."""
    session = key.removeprefix(LINES).partition("/")[0]
    return {large_key(session, one[2]): one for one in elements if _is_large(one)}


def said_in_large(header: object, element: Any, blob: bytes) -> Texts:
    """The texts of a large line, which stands in a ``blob``."""
    agent = _agent_of(header)
    found = () if agent is None else _texts_in(agent, with_large(element, blob)[1])
    return tuple((text[:LARGE_CHARS], time) for text, time in found)


def said(
    header: object, elements: Sequence[Any], mark: Mark | None, large: Mapping[bytes, Texts] | None = None
) -> Said | None:
    """The texts in ``elements`` of the log of a session whose record is ``header``: in all of them, or with the
    ``mark`` of what was read before in those after the first, which was the last then. None: they do not go on so.
    ``large`` is what is said in large lines, by their digests.
    """
    agent = _agent_of(header)
    if agent is None:
        return Said((), None)
    read, begun = 0, None
    if mark is not None:
        read, begun = mark[0] - 1, Piece(START, mark[1][:DIGEST_BYTES], mark[1][DIGEST_BYTES:])
        if not elements or end_of(elements[0]) != begun.digest:
            return None
    tree = PieceTree(begun=begun)
    pieces = tree.add(elements if begun is None else elements[1:])
    if begun is not None and tree.waits:
        return None
    texts = tuple(dict.fromkeys(_texts(agent, pieces, large or {})))
    last = None if tree.waits else tree.newest
    new = None if last is None else (read + len(elements), last.digest + last.content)
    return Said(texts, new, is_more=begun is not None)


def _agent_of(header: object) -> CodingAgent | None:
    return AGENTS.get(str(header.get("agent"))) if isinstance(header, dict) else None


def _is_large(element: Any) -> bool:
    match element:
        case [bytes(), int(size), bytes()]:
            return size <= LARGE_BYTES_MAX
    return False


def _texts(agent: CodingAgent, pieces: Iterable[Piece], large: Mapping[bytes, Texts]) -> Iterator[tuple[str, str]]:
    """The texts in the lines that are complete; a torn one is followed by another branch, in which it is whole."""
    line, end = b"", START
    for one in pieces:
        line = line + one.content if one.after == end else one.content
        end = one.digest
        yield from large.get(end, ())
        if line.endswith(b"\n"):
            yield from _texts_in(agent, line)
            line = b""


def _texts_in(agent: CodingAgent, line: bytes) -> Iterator[tuple[str, str]]:
    """The texts in a line; a sub-agent's, too, which the conversation of its file's agent leaves out."""
    items = agent.read([_ASIDE.sub(b'"isSidechain":false', line)]).items
    return ((text_of(item), item.time) for item in items)
