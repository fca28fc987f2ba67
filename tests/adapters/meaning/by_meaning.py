"""Run in an environment that has the vectors: what is found by its meaning, and what it does not spoil."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from crdtsync import Client
from crdtsync.context import Search
from crdtsync.context.search.meaning import Meaning
from crdtsync.errors import InvalidEncoding

TEXTS = {
    "findings/disk": "the drive of host-b has no room left",
    "findings/cache": "after a restart the first answers take long",
    "people/ann": "Ann takes the train to Berlin every Monday",
    "code/reader": "def read_file(path): return open(path).read()",
}


@pytest.fixture
def state():
    with Client(os.environ["SOCKET"], agent="ann") as client:
        for key, text in TEXTS.items():
            client.set(key, text)
        yield client


@pytest.mark.parametrize(
    "query, key",
    [("storage is full", "findings/disk"), ("slow responses", "findings/cache"), ("railway journey", "people/ann")],
)
def test_other_words_for_it_are_found(state: Client, tmp_path: Path, query: str, key: str) -> None:
    assert key not in [found.key for found in Search(state, folder=tmp_path).search(query)]
    found = Search(state, folder=tmp_path, meaning=True).search(query, limit=3)
    assert found[0].key == key


def test_words_still_count_and_limits_hold(state: Client, tmp_path: Path) -> None:
    search = Search(state, folder=tmp_path, meaning=True)
    assert search.search("read_file", limit=1)[0].key == "code/reader"
    assert [found.key for found in search.search("storage is full", prefix="people/")] in ([], ["people/ann"])
    assert search.search("storage is full", agent="bob") == []
    state.set("findings/disk", "it was replaced")
    state.delete("people/ann")
    assert "no room" not in " ".join(found.snippet for found in search.search("storage is full"))
    assert "people/ann" not in [found.key for found in search.search("railway journey")]


def test_vectors_are_small_and_any_text_has_one() -> None:
    meaning = Meaning()
    texts = ["", " ", "\0", "\ud800".encode("utf-8", "replace").decode(), "日本語", "x" * 100_000, "disk full"]
    vectors = meaning.vectors(texts)
    assert {len(vector) for vector in vectors} == {256}
    likeness = meaning.likeness(vectors, "disk full")
    assert likeness[-1] == pytest.approx(1.0, abs=0.01)
    assert likeness[0] == 0.0
    assert (likeness <= 1.01).all()


def test_another_version_of_the_package_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crdtsync.context.search.meaning._VECTORS", "weights/none.safetensors")
    with pytest.raises(InvalidEncoding, match=r"no weights/none\.safetensors"):
        Meaning().vectors(["a"])
