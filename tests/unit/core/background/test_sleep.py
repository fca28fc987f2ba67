"""Spaces that nobody uses sleep, are asked by peers in their sleep, and wake as they were."""

from __future__ import annotations

import pytest

from crdtsync.core.background import trimming
from crdtsync.core.background.retention_caps import DEFAULT_CAPS
from crdtsync.core.background.sleep import IDLE_LOOKS, LOOK_INTERVAL_S
from crdtsync.core.replica import asleep
from crdtsync.errors import StorageError
from crdtsync.wire.codec import pack
from tests.fleet.editor import Editor
from tests.fleet.fleet import Fleet, fleet_of
from tests.fleet.host import Host


def let_minutes_pass(fleet: Fleet) -> None:
    """Longer than it takes until what nobody uses sleeps."""
    for _ in range(IDLE_LOOKS + 2):
        fleet.pass_time(LOOK_INTERVAL_S)
        fleet.sync()


def is_asleep(host: Host) -> bool:
    return host.replica.asleep is not None


def test_who_is_not_used_sleeps_and_a_request_wakes_it(node: Host) -> None:
    ann = node.agent("ann")
    ann.set("k", "long" * 1000)
    ann.set("k", "longer" * 1000)
    before = node.node.status()["spaces"][0]
    let_minutes_pass(node.fleet)
    assert is_asleep(node)
    assert node.node.status()["spaces"][0] == before
    assert is_asleep(node), "who looks at figures wakes nobody"
    assert ann.get("k") == "longer" * 1000
    assert not is_asleep(node)
    assert node.node.status()["spaces"][0] == before


def test_who_is_used_stays_awake(node: Host) -> None:
    ann = node.agent("ann")
    ann.set("k", 1)
    for _ in range(3 * IDLE_LOOKS):
        node.fleet.pass_time(LOOK_INTERVAL_S)
        node.turn()
        assert ann.get("k") == 1
        assert not is_asleep(node)


def test_all_sleep_after_a_start_and_are_compared_in_their_sleep(pair: Fleet) -> None:
    a, b = pair["a"], pair["b"]
    a.agent("ann").set("k", 1)
    pair.sync()
    a.restart()
    assert is_asleep(a)
    frontier, digest = a.replica.frontier, a.replica.digest
    pair.link("a", "b")
    pair.run(10, step_s=1)
    assert is_asleep(a)
    assert (a.replica.frontier, a.replica.digest) == (frontier, digest) == (b.replica.frontier, b.replica.digest)
    assert a.alarms == b.alarms == set()
    b.agent("bob").set("k", 2)
    pair.sync()
    assert not is_asleep(a)
    assert a.agent("ann").get("k") == 2


def test_a_difference_is_found_in_the_sleep_of_one(pair: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = pair["a"], pair["b"]
    a.agent("ann").set("k", 1)
    pair.sync()
    a.restart()
    assert a.replica.asleep is not None
    a.replica.asleep = a.replica.asleep._replace(digest=0)
    pair.link("a", "b")
    pair.run(10, step_s=1)
    assert "divergence" in a.alarms | b.alarms


def test_a_row_that_the_disk_loses_in_its_sleep_is_noticed_when_it_wakes(pair: Fleet) -> None:
    """It slept with a digest of all that it held, and a peer still has what is gone."""
    a = pair["a"]
    for key in "kl":
        a.agent("ann").set(key, 1)
    pair.sync()
    (lost,) = a.replica.entries.held("k")
    let_minutes_pass(pair)
    assert is_asleep(a)
    a.store._db.execute("DELETE FROM entries WHERE row = ?", (lost.row,))
    a.store._db.commit()
    assert a.agent("ann").get("k") is None
    pair["b"].agent("bob").set("m", 1)
    pair.run(10, step_s=1)
    assert a.agent("ann").get("k") == 1


def test_a_write_wakes_it_and_keeps_what_it_knew(node: Host) -> None:
    ann = node.agent("ann")
    ann.do("schema_set", key="_schema/r", pattern="r", policy="all")
    ann.write("incr", key="n/1", by=2)
    node.turn()
    let_minutes_pass(node.fleet)
    assert is_asleep(node)
    ann.write("incr", key="n/1", by=3)
    node.turn()
    assert not is_asleep(node)
    assert ann.get("n/1") == 5
    assert [schema.pattern for schema in node.replica.schemas.all()] == ["r"]
    node.restart()
    assert node.agent("ann").get("n/1") == 5


def test_what_time_alone_may_change_stays_awake(node: Host) -> None:
    ann = node.agent("ann")
    request = ann.write("set", key="k", value=pack(1), ttl=3_600_000)
    node.turn()
    ann.result(request)
    let_minutes_pass(node.fleet)
    assert not is_asleep(node)
    ann.set("k", 2)
    let_minutes_pass(node.fleet)
    assert is_asleep(node)


def test_what_is_large_stays_awake(node: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """To wake it would hold up everybody else."""
    monkeypatch.setattr(asleep, "ENTRIES_MAX", 2)
    ann = node.agent("ann")
    for key in "abc":
        ann.set(key, 1)
    let_minutes_pass(node.fleet)
    assert not is_asleep(node)


def test_the_log_of_a_sleeper_goes_when_it_is_too_old() -> None:
    hour_ms = 3_600_000
    with fleet_of("a", caps=DEFAULT_CAPS._replace(log_age_ms_max=hour_ms)) as fleet:
        node = fleet["a"]
        node.agent("ann").set("k", 1)
        let_minutes_pass(fleet)
        assert is_asleep(node)
        assert node.store.oldest_change(node.replica.id) == node.store.oldest_changes(node.replica.id, 1)[0]
        fleet.pass_time(hour_ms / 1000)
        let_minutes_pass(fleet)
        assert not node.store.oldest_changes(node.replica.id, 1)
        assert node.replica.floor == node.replica.vector


def test_texts_that_are_to_go_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trimming, "SLICE_DOCUMENTS_MAX", 1)
    hour_ms = 3_600_000
    with fleet_of("a", caps=DEFAULT_CAPS._replace(log_age_ms_max=hour_ms)) as fleet:
        node = fleet["a"]
        for key in "abc":
            Editor(node, key).append("words")
            node.agent("ann").delete(key)
        fleet.pass_time(hour_ms / 1000)
        while node.store.oldest_changes(node.replica.id, 1):
            fleet.pass_time(1)
            node.turn()
        assert node.store.document_spans(node.replica.id, None, 1)
        node.restart()
        assert not is_asleep(node)
        let_minutes_pass(fleet)
        assert is_asleep(node)
        assert not node.store.document_spans(node.replica.id, None, 1)


def test_who_cannot_be_read_sleeps_on(node: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    node.agent("ann").set("k", 1)
    let_minutes_pass(node.fleet)
    assert is_asleep(node)

    def fail(*_: object) -> None:
        raise StorageError("the disk failed")

    with monkeypatch.context() as patch:
        patch.setattr(node.store, "entries", fail)
        with pytest.raises(StorageError):
            node.replica.entries.held("k")
    assert is_asleep(node)
    assert node.agent("ann").get("k") == 1


def test_what_no_replica_has_is_not_looked_for(node: Host) -> None:
    let_minutes_pass(node.fleet)
    assert not hasattr(node.replica, "nonsense")
    assert is_asleep(node)
