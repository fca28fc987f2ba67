"""A saved session as a search finds it: what was said and done in it, and when.

Its lines are read one by one, in the order in which they were saved. So what its agent no longer sees, before a
compaction or on another branch, is found, too, and a session that goes on costs what its new lines cost. Large lines,
which are blobs, are passed over.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from crdtsync.context.search.passages import Mark, Said
from crdtsync.sessions.agents.places import AGENTS
from crdtsync.sessions.conversation.record import text_of
from crdtsync.sessions.saved.header import HEADERS, LINES, MAIN
from crdtsync.sessions.saved.pieces import DIGEST_BYTES, START, Piece, Tree, end_of


def header_of(key: str) -> str | None:
    """The key of the record of the session whose lines are under ``key``; None: there are none that are searched."""
    session, _, file = key.removeprefix(LINES).partition("/")
    return HEADERS + session if key.startswith(LINES) and file == MAIN else None


def said(header: object, elements: Sequence[Any], mark: Mark | None) -> Said | None:
    """What is said in ``elements`` of the log of a session whose record is ``header``: in all of them, or with the
    ``mark`` of what was read before in those after the first, which was the last then. None: they do not go on so.
    """
    agent = AGENTS.get(str(header.get("agent"))) if isinstance(header, dict) else None
    if agent is None:
        return Said((), None)
    read, begun = 0, None
    if mark is not None:
        read, begun = mark[0] - 1, Piece(START, mark[1][:DIGEST_BYTES], mark[1][DIGEST_BYTES:])
        if not elements or end_of(elements[0]) != begun.digest:
            return None
    tree = Tree(begun=begun)
    pieces = tree.add(elements if begun is None else elements[1:])
    if begun is not None and tree.waits:
        return None
    items = (item for line in _lines(pieces) for item in agent.read([line]).items)
    texts = tuple(dict.fromkeys((text_of(item), item.time) for item in items))
    last = None if tree.waits else tree.newest
    new = None if last is None else (read + len(elements), last.digest + last.content)
    return Said(texts, new, is_more=begun is not None)


def _lines(pieces: Iterable[Piece]) -> Iterator[bytes]:
    """The lines that are complete; a torn one is followed by another branch, in which it is whole."""
    line, end = b"", START
    for one in pieces:
        line = line + one.content if one.after == end else one.content
        end = one.digest
        if line.endswith(b"\n"):
            yield line
            line = b""
