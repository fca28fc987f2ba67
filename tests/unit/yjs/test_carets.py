"""Who is told of whose caret."""

from __future__ import annotations

import asyncio

import pytest

from crdtsync.yjs.carets import CARET_BYTES_MAX, OWN_MAX, Carets, Viewer
from crdtsync.yjs.messages import Caret


async def told(viewer: Viewer) -> list[Caret]:
    return sorted(await asyncio.wait_for(viewer.news(), 20))


async def nothing(viewer: Viewer) -> bool:
    try:
        await asyncio.wait_for(viewer.news(), 0)
    except TimeoutError:
        return True
    return False


@pytest.fixture
def carets() -> Carets:
    return Carets()


async def test_all_are_told_the_newest_of_each(carets: Carets):
    ann, bob = Viewer(carets), Viewer(carets)
    ann.show([Caret(1, 1, b"a")])
    ann.show([Caret(1, 2, b"b")])
    ann.show([Caret(1, 1, b"late")])
    assert await told(bob) == await told(ann) == [Caret(1, 2, b"b")]  # also who says it: that it is heard
    assert await told(Viewer(carets)) == [Caret(1, 2, b"b")]
    assert await nothing(bob)


async def test_who_goes_is_seen_to_go_and_may_come_back(carets: Carets):
    ann, bob = Viewer(carets), Viewer(carets)
    ann.show([Caret(1, 5, b"a")])
    await told(bob)
    assert not ann.close()
    assert await told(bob) == [Caret(1, 5, b"null")]
    Viewer(carets).show([Caret(1, 6, b"a")])
    assert await told(bob) == [Caret(1, 6, b"a")]
    assert not bob.close()


async def test_the_last_one_closes_the_room(carets: Carets):
    ann = Viewer(carets)
    ann.show([Caret(1, 5, b"a")])
    assert ann.close()
    assert carets.all() == []


async def test_what_one_says_is_bounded(carets: Carets):
    ann, bob = Viewer(carets), Viewer(carets)
    ann.show([Caret(1, 1, bytes(CARET_BYTES_MAX + 1))])
    assert await nothing(bob)
    for client in range(OWN_MAX + 5):
        ann.show([Caret(client, 1, b"a")])
    assert len(await told(bob)) == OWN_MAX
