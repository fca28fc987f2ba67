"""A space that has gone is waited for a while by whoever had it, and by nobody else."""

from __future__ import annotations

import pytest

from crdtsync.client.protocol.seen_point import Horizon
from crdtsync.client.streams import resume
from crdtsync.client.streams.resume import Standing
from crdtsync.errors import Refused, UnknownSpace

GONE = UnknownSpace("the space team was dropped")


@pytest.fixture
def waited(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, and a space that was there."""
    now = [0.0]
    monkeypatch.setattr(resume, "monotonic", lambda: now[0])
    return now


def test_a_space_that_was_there_is_waited_for_and_then_it_is_said_what_came_first(waited: list[float]) -> None:
    """Not what the last attempt was told, which knows nothing of the drop."""
    watch = Standing(Horizon(), "team")
    watch.taken()
    for waited[0] in (0.0, 10.0, 29.0):
        watch.outlast(GONE if not waited[0] else UnknownSpace("there is no space team"))
        assert watch.lacking is not None
    waited[0] = 30.0
    with pytest.raises(UnknownSpace, match="was dropped"):
        watch.outlast(UnknownSpace("there is no space team"))


def test_one_that_comes_back_may_go_again(waited: list[float]) -> None:
    """Each time anew."""
    watch = Standing(Horizon(), "team")
    for waited[0] in (0.0, 29.0, 58.0):
        watch.taken()
        assert watch.lacking is None
        watch.outlast(GONE)


def test_one_that_never_was_there_is_an_error_at_once() -> None:
    """A name misspelt, most likely."""
    with pytest.raises(UnknownSpace):
        Standing(Horizon(), "team").outlast(GONE)


def test_nothing_else_is_waited_for() -> None:
    """Whatever the daemon refuses."""
    watch = Standing(Horizon(), "team")
    watch.taken()
    with pytest.raises(Refused, match="no"):
        watch.outlast(Refused("no"))
