"""How a restore brings back what a text, and the map of its document, were: by one edit, which two hosts make alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crdtsync.core.text.document import Document
from crdtsync.core.text.yjs_library import MAP, NO_CHANGE, ROOT, client_of, edited_by, fresh_updates
from crdtsync.differences import edits
from crdtsync.errors import InvalidRequest, TooLarge
from crdtsync.wire.codec import pack

if TYPE_CHECKING:
    from crdtsync.wire.yjs.encoding import Steps

MAP_BYTES_MAX = 32 * 1024
"""Documents of more are not restored; nor are those with more values than :mod:`.map_making` looks at in a turn."""


def made_like(now: Document, then: Document) -> Steps[bytes]:
    """The Yjs update of ``now`` after which it says what ``then`` says, in steps.

    :raises InvalidRequest: there is more to them than text and map.
    :raises TooLarge: they are too large, or what differs is.
    """
    like = _map_of(now, then)
    changes = edits(now.read(), then.read())
    yield
    update = yield from now.edited_slowly(changes, like)
    if like is not None:
        now.check(update)
    return update


def fresh(key: str, then: Document) -> bytes:
    """The update by which an empty document does. Raises as :func:`made_like`."""
    content, seed = then.read(), pack([key, *then.dot])
    empty = Document(then.dot, lambda _: (None, []))
    like = _map_of(empty, then)
    if like is None:
        (update,) = fresh_updates(content, seed, len(content) + 1)
    else:
        update = edited_by(NO_CHANGE, [(0, 0, content)], client_of(seed, like), like)
        empty.check(update)
    return update


def says(now: Document, then: Document) -> bool:
    """Whether both say the same. Raises as :func:`made_like`."""
    if now.read() != then.read():
        return False
    like = _map_of(now, then)
    return like is None or edited_by(now.state(), (), 1, like) == NO_CHANGE


def map_bytes(document: Document) -> int:
    """How large it is, if it has a map."""
    return len(document.state()) if MAP in document.roots() else 0


def _map_of(now: Document, then: Document) -> bytes | None:
    """The whole of ``then``, if one of both has a map."""
    names = {*now.roots(), *then.roots()} - {ROOT}
    if not names:
        return None
    if names != {MAP}:
        raise InvalidRequest(f"it has a part that only its editor can bring back: {min(names - {MAP})!r:.100}")
    like = then.state()
    if max(len(now.state()), len(like)) > MAP_BYTES_MAX:
        raise TooLarge(f"a document of over {MAP_BYTES_MAX:,} bytes: take what you need from it (crdtsync doc --at)")
    return like
