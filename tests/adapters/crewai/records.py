"""What CrewAI's memory is asked for; run by tests/integration/test_crewai.py."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from crewai.memory.types import MemoryRecord

from crdtsync.adapters.crewai import CrdtMemoryStorage


@pytest.fixture
def memory() -> Iterator[CrdtMemoryStorage]:
    with CrdtMemoryStorage(os.environ["SOCKET"], prefix="records") as storage:
        storage.reset()
        scopes = {"1": "/", "2": "/a/b", "3": "/a/c/d", "4": "/ab"}
        storage.save([MemoryRecord(id=name, content=name, scope=scope) for name, scope in scopes.items()])
        yield storage


@pytest.mark.parametrize("scope", ["/a", "a", "a/", "/a/"])
def test_a_scope_is_the_same_with_a_slash_and_without(memory: CrdtMemoryStorage, scope: str) -> None:
    info = memory.get_scope_info(scope)
    assert (info.path, info.record_count, info.child_scopes) == ("/a", 2, ["/a/b", "/a/c"])
    assert memory.list_scopes(scope) == ["/a/b", "/a/c"]
    assert memory.count(scope) == 2


@pytest.mark.parametrize("root", ["/", ""])
def test_the_root(memory: CrdtMemoryStorage, root: str) -> None:
    assert memory.get_scope_info(root).path == "/"
    assert memory.list_scopes(root) == ["/a", "/ab"]


def test_less_than_no_records(memory: CrdtMemoryStorage) -> None:
    assert [len(memory.list_records(limit=limit)) for limit in (-1, 0, 3, 9)] == [0, 0, 3, 4]
    assert [len(memory.list_records(limit=3, offset=offset)) for offset in (-1, 2, 9)] == [0, 2, 0]


def test_no_ids_are_no_records(memory: CrdtMemoryStorage) -> None:
    assert memory.delete(record_ids=[]) == 0
    assert memory.delete(record_ids=["2", "9"]) == 1
    assert memory.count() == 3
