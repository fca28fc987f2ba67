"""What the cluster commands say of what they have done, or left undone."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from crdtsyncd.cli.commands.cluster.cluster import _key_state
from crdtsyncd.cli.data import join_and_merge

from crdtsync.errors import Refused


def test_a_key_in_use_is_not_said_to_wait():
    assert _key_state(["host-c"], finish=False) == "the new key is used once these members know it: host-c"
    assert _key_state([], finish=False) == "all members know the new key"
    done = _key_state(["host-c"], finish=True)
    assert done.startswith("the new key is in use")
    assert "refuse this node until they hear of it from another member: host-c" in done
    assert "host" not in _key_state([], finish=True)


def joining(answer: dict[str, Any], refusal: Refused | None = None) -> Any:
    """How a daemon answers who asks to join: with ``refusal`` who would not have its data archived."""

    def cluster_join(*_: object, archive: bool = False, **__: object) -> dict[str, Any]:
        if refusal is not None and not archive:
            raise refusal
        return answer

    return cluster_join


def ask(client: Any, archive: bool) -> dict[str, Any]:
    answer: dict[str, Any] = client.cluster_join("crdtsync1.x", archive=archive)
    return answer


HOLDS_DATA = Refused("this node holds data already", "not_empty")


@pytest.mark.parametrize("why, refusal", [("already", None), ("kept", None), ("already", HOLDS_DATA)])
def test_what_is_of_the_cluster_is_not_brought_along_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, why: str, refusal: Refused | None
):
    client = SimpleNamespace(
        status=lambda: {"spaces": [{"name": "default", "keys": 1}]},
        cluster_join=joining({"cluster": "c", why: True}, refusal),
    )

    @contextmanager
    def connect(_settings: Any) -> Any:
        yield client

    monkeypatch.setattr(join_and_merge, "connect", connect)
    monkeypatch.setattr(join_and_merge, "_export", lambda _settings, space, path: path.write_text(space))
    monkeypatch.setattr(join_and_merge, "_import", lambda *_: pytest.fail("it holds this already"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    settings: Any = SimpleNamespace()
    assert join_and_merge.enter_and_merge(settings, ask)[why]
    assert not list(tmp_path.iterdir())


def test_an_interrupted_merge_says_where_the_rest_lies(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    client = SimpleNamespace(
        status=lambda: {"spaces": [{"name": "default", "keys": 1}, {"name": "team", "keys": 1}]},
        cluster_join=joining({"cluster": "c"}, HOLDS_DATA),
    )

    @contextmanager
    def connect(_settings: Any) -> Any:
        yield client

    def interrupted(_settings: Any, space: str, path: Path) -> bool:
        if space == "team":
            raise KeyboardInterrupt
        path.unlink()
        return True

    monkeypatch.setattr(join_and_merge, "connect", connect)
    monkeypatch.setattr(join_and_merge, "_export", lambda _settings, space, path: path.write_text(space))
    monkeypatch.setattr(join_and_merge, "_import", interrupted)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    settings: Any = SimpleNamespace()
    with pytest.raises(KeyboardInterrupt):
        join_and_merge.enter_and_merge(settings, ask)
    place = next(tmp_path.glob("crdtsync-merge-*"))
    assert [path.name for path in place.iterdir()] == ["team.ndjson"]
    assert str(place) in capsys.readouterr().err
