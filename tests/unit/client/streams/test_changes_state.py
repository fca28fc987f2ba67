"""What has changed since a token: each key once, and all again after a connection that broke or a reset."""

from typing import Any

import msgpack
import pytest

from crdtsync.client.session.read_memory import ReadMemory
from crdtsync.client.streams.changes_state import Changes, ChangesState
from crdtsync.client.streams.watch_state import WATCH_ID
from crdtsync.errors import UnknownSpace


def question(after: str | None = None) -> Any:
    state = ChangesState(ReadMemory(), "p/", after, {"agent": "me"})
    state.request()
    return state


def come(state, *events):
    state.take((WATCH_ID, 2, [dict(zip(("event", "key", "token"), event, strict=False)) for event in events]))


def test_it_asks_for_states_after_the_token():
    _, operation, arguments = msgpack.unpackb(question("c1.x").request()[4:])
    assert operation == "watch"
    assert arguments == {"prefix": "p/", "agent": "me", "states": True, "after": "c1.x"}
    assert "after" not in msgpack.unpackb(question().request()[4:])[2]


def test_each_key_is_named_once_as_it_ended():
    state = question("c1.x")
    come(state, ("state", "p/b"), ("state", "p/a"), ("delete", "p/b"), ("part", "p/l"), ("part", "p/l"))
    assert state.next_event() is None
    come(state, ("current", None, "c1.y"), ("state", "p/later"), ("current", None, "c1.z"))
    assert state.changes == Changes(["p/a", "p/l"], ["p/b"], "c1.y", is_all=False)
    assert state.next_event() is not None


def test_a_reset_and_a_broken_connection_begin_anew():
    state = question("c1.x")
    come(state, ("delete", "p/gone"), ("reset", None), ("state", "p/a"), ("current", None, "c1.y"))
    assert state.changes == Changes(["p/a"], [], "c1.y", is_all=True)
    state = question("c1.x")
    come(state, ("state", "p/half"))
    state.request()
    come(state, ("current", None, "c1.y"))
    assert state.changes == Changes([], [], "c1.y", is_all=False)


def test_a_refusal_is_raised():
    with pytest.raises(UnknownSpace):
        question().take((WATCH_ID, 1, {"code": "unknown_space", "message": "no such space"}))
