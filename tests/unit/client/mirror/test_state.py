"""What a mirror shows at every moment, to threads that look in between: a batch is there as a whole, with its token."""

from __future__ import annotations

from typing import Any

import pytest

from crdtsync.client.mirror.state import MirrorState
from crdtsync.client.protocol.frames import EVENTS
from crdtsync.client.session.read_memory import ReadMemory
from tests.unit.client.mirror.test_mirrors import current, state, token

Content = dict[str, Any]


class Observed(dict[str, Any]):
    """A dict that notes what a reader would see after each step of whoever changes it."""

    def __init__(self, content: Content, seen: list[Content]) -> None:
        super().__init__(content)
        self._seen = seen

    def _noted(self, name: str, *args: Any, **named: Any) -> Any:
        result = getattr(dict, name)(self, *args, **named)
        self._seen.append(plain(self))
        return result

    def update(self, *args: Any, **named: Any) -> None:
        self._noted("update", *args, **named)

    def pop(self, *args: Any) -> Any:
        return self._noted("pop", *args)

    def clear(self) -> None:
        self._noted("clear")

    def setdefault(self, *args: Any) -> Any:
        return self._noted("setdefault", *args)

    def __setitem__(self, *args: Any) -> None:
        self._noted("__setitem__", *args)

    def __delitem__(self, *args: Any) -> None:
        self._noted("__delitem__", *args)


class ObservedLock:
    """Notes what can be seen whenever it is taken and let go: by who waits for it, before and after."""

    def __init__(self, look: Any) -> None:
        self._look = look
        self.seen: list[tuple[Content, str | None]] = []

    def __enter__(self) -> None:
        self.seen.append(self._look())

    def __exit__(self, *_: object) -> None:
        self.seen.append(self._look())


def plain(holding: Any) -> Content:
    return {key: held.read() for key, held in dict(holding).items()}


def told(mirror: MirrorState, *events: dict[str, object]) -> None:
    mirror.take((2, EVENTS, list(events)))


def delete(key: str) -> dict[str, object]:
    return {"event": "delete", "key": key}


@pytest.fixture
def mirror() -> MirrorState:
    made = MirrorState("default", ReadMemory(), "", {}, 1000, 10**6)
    told(made, *(state(key, 0) for key in "abcd"), current(1))
    return made


BATCHES: dict[str, list[dict[str, object]]] = {
    "writes": [state("a", 1, 2), state("e", 1, 2)],
    "deletes": [delete("a"), delete("b")],
    "both": [state("a", 1, 2), delete("b"), state("e", 1, 2), delete("c")],
    "a reset": [{"event": "reset", "key": None}, state("e", 1, 2)],
}


@pytest.mark.parametrize("batch", BATCHES)
def test_no_reader_sees_a_part_of_a_batch(mirror, batch):
    seen: list[Content] = []
    before = plain(mirror._holding)
    mirror._holding = held = Observed(mirror._holding, seen)
    told(mirror, *BATCHES[batch])
    assert plain(mirror._holding) == before  # it is not whole yet
    told(mirror, current(2))
    after = plain(mirror._holding)
    assert after != before
    assert [content for content in seen if content not in (before, after)] == []
    assert plain(held) in (before, after)  # who looks through what it was given sees one of the two


@pytest.mark.parametrize("batch", BATCHES)
def test_a_moment_and_its_token_change_together(mirror, batch):
    lock = ObservedLock(lambda: (plain(mirror._holding), mirror._token))
    mirror._publishing = lock
    before = (plain(mirror._holding), token(1))
    told(mirror, *BATCHES[batch], current(2))
    after = (plain(mirror._holding), token(2))
    assert lock.seen
    assert [one for one in lock.seen if one not in (before, after)] == []
    view = mirror.snapshot()
    assert (plain(view._holding), view.token) == after
