"""A space that has gone is waited for a while by whoever had it, and by nobody else."""

from __future__ import annotations

import pytest

from crdtsync.client.streams import space_absence
from crdtsync.client.streams.space_absence import Absence
from crdtsync.errors import Refused, UnknownSpace

GONE = UnknownSpace("the space team was dropped")


@pytest.fixture
def waited(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, and a space that was there."""
    now = [0.0]
    monkeypatch.setattr(space_absence, "monotonic", lambda: now[0])
    return now


def test_a_space_that_was_there_is_waited_for_and_then_it_is_said_what_came_first(waited: list[float]) -> None:
    """Not what the last attempt was told, which knows nothing of the drop."""
    gone = Absence()
    gone.over()
    for waited[0] in (0.0, 10.0, 29.0):
        gone.outlast(GONE if not waited[0] else UnknownSpace("there is no space team"))
        assert gone.is_on
    waited[0] = 30.0
    with pytest.raises(UnknownSpace, match="was dropped"):
        gone.outlast(UnknownSpace("there is no space team"))


def test_one_that_comes_back_may_go_again(waited: list[float]) -> None:
    """Each time anew."""
    gone = Absence()
    for waited[0] in (0.0, 29.0, 58.0):
        gone.over()
        assert not gone.is_on
        gone.outlast(GONE)


def test_one_that_never_was_there_is_an_error_at_once() -> None:
    """A name misspelt, most likely."""
    with pytest.raises(UnknownSpace):
        Absence().outlast(GONE)


def test_nothing_else_is_waited_for() -> None:
    """Whatever the daemon refuses."""
    gone = Absence()
    gone.over()
    with pytest.raises(Refused, match="no"):
        gone.outlast(Refused("no"))
