"""``crdtsync explain KEY`` on real daemons: one walk through what may be the matter with a key."""

from __future__ import annotations

import json
from typing import Any

import pytest

from crdtsync.wire.codec import pack
from crdtsync.wire.kinds import Kind
from tests.harness.cluster import Cluster, wait_until, wait_until_equal
from tests.harness.daemon import Daemon
from tests.harness.shell import command
from tests.integration.test_peer_abuse import Stranger, change, put

pytestmark = pytest.mark.integration


def run(daemon: Daemon, *words: str) -> str:
    done = command("--socket", str(daemon.socket), "explain", *words)
    assert done.status == 0, done.err
    return done.out


def explained(daemon: Daemon, key: str, *words: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run(daemon, key, "--json", *words))
    return found


def codes(found: dict[str, Any]) -> list[str]:
    return [reason["code"] for reason in found["reasons"]]


def test_a_walk_through_what_may_be_the_matter_with_a_key():
    with Cluster(3) as cluster:
        a, b, c = cluster
        with a.client(agent="ann") as ann, b.client(agent="bob") as bob, c.client(agent="cid") as cid:
            # Normal: who wrote it, over which peer it came, who has it.
            ann.set("plan", {"goal": "ship"}, w="all")
            wait_until_equal(cluster.daemons)
            wait_until(lambda: not codes(bob.explain("plan")), what="all have confirmed it")
            value = explained(b, "plan")["values"][0]
            assert (value["agent"], value["node"], value["over"], value["came"]) == ("ann", a.name, a.name, "change")
            assert value["value"] == {"goal": "ship"}
            assert sorted(value["held_by"]) == sorted([a.name, c.name])
            shown = run(b, "plan")
            assert f"came over {a.name}" in shown
            assert len(shown.splitlines()) < 24

            # Deleted, and expired.
            bob.delete("plan")
            bob.set("brief", 1, ttl=0.2)
            wait_until(lambda: explained(a, "plan")["state"] == "deleted", what="the deletion comes")
            assert explained(a, "plan")["removed"]["by"]["agent"] == "bob"
            wait_until(lambda: explained(a, "brief")["state"] == "expired", what="it expires")

            # In conflict, with a policy.
            ann.schema_set("score/*", policy="max")
            wait_until_equal(cluster.daemons)
            cluster.isolate(a)
            cluster.wait_parted(a, b)
            cluster.wait_parted(a, c)
            ann.set("score/x", 1)
            bob.set("score/x", 2)

            # Behind a cut link: what is there cannot be known, and who has not confirmed it can.
            ann.set("late", 1)
            found = explained(b, "late")
            assert (found["state"], codes(found)) == ("never", ["cut"])
            assert a.name in found["reasons"][0]["message"]
            assert "unconfirmed" in codes(explained(a, "late"))

            # In conflict once it heals.
            cluster.heal()
            cluster.wait_connected()
            wait_until_equal(cluster.daemons)
            assert explained(c, "score/x")["policy"] == {
                "name": "max",
                "pattern": "score/*",
                "why": "the schema of score/* says so",
            }
            assert [one["agent"] for one in explained(c, "score/x")["values"]] == ["bob", "ann"]

            # Held at the causal gate; then set aside, for no editor makes such an edit.
            with Stranger(c) as stranger:
                stranger.send_changes(change(77, 2, put("held"), prev_hash=bytes(16)))
                wait_until(lambda: "gap" in codes(explained(c, "held")), what="it is held")
                held = explained(c, "held")
                assert (held["state"], held["reasons"][0]["code"]) == ("never", "gap")
                assert held["reasons"][0]["waits_for"] == {"writer": 77, "seq": 1, "node": "a node not heard of here"}
                assert "came over stranger" in run(c, "held")
                stranger.send_changes(change(78, 1, put("notes", pack([None, b"garbage"]), kind=Kind.TEXT)))
                wait_until(lambda: "quarantine" in codes(explained(c, "notes")), what="the edit is set aside")

            # In a space that this node does not hold.
            bob.create_space("team", nodes=[b.name])
            wait_until(lambda: explained(c, "plan", "--space", "team")["state"] == "elsewhere", what="c hears of it")
            assert b.name in run(c, "plan", "--space", "team")
            assert cid.explain("plan", space="team")["state"] == "elsewhere"
