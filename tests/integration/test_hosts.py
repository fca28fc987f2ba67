"""Three hosts, each with a network of its own, made one cluster by the documented commands, then cut and healed.

Needs root, ``ip`` and network namespaces.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from time import sleep

import pytest

from tests.harness.cluster import wait_until, wait_until_equal
from tests.harness.daemon import Daemon
from tests.harness.lan import Lan, has_namespaces, ip
from tests.harness.shell import command

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(
        not has_namespaces(),
        reason="needs root and ip netns",
    ),
]
CUT_S = 3.0


@pytest.fixture
def lan() -> Iterator[Lan]:
    made = Lan(["a", "b", "c"])
    try:
        yield made
    finally:
        made.close()


def run(daemon: Daemon, *words: str, stdin: str = "") -> str:
    done = command("--socket", str(daemon.socket), *words, given=stdin)
    assert done.status == 0, done.err
    return done.out.strip()


def connected(one: Daemon, other: Daemon) -> bool:
    return all((a.peer(b.name) or {}).get("state") == "connected" for a, b in ((one, other), (other, one)))


def meet(*daemons: Daemon, timeout_s: float = 60.0) -> None:
    for number, one in enumerate(daemons):
        for other in daemons[number + 1 :]:
            wait_until(lambda a=one, b=other: connected(a, b), timeout_s, f"{one.name} and {other.name} meet")  # type: ignore[misc]


def write_on_all(daemons: list[Daemon], word: str) -> None:
    for daemon in daemons:
        daemon.client().set(f"{word}/{daemon.name}", word)
        daemon.client().set(f"{word}/shared", daemon.name)


def test_three_hosts_are_joined_cut_healed_and_one_is_removed(lan: Lan) -> None:
    a, b, c = (lan.start(name) for name in "abc")
    run(a, "cluster", "init", "--listen", "0.0.0.0:7420")
    run(b, "cluster", "join", run(a, "cluster", "invite"))
    run(c, "cluster", "join", "-", "--listen", "0.0.0.0:7420", stdin=run(a, "cluster", "invite"))
    wait_until(lambda: connected(a, b) and connected(a, c) and connected(b, c), what="all meet")  # b only dials
    a.client().set("k", 1, w="all")

    # cut off fully: everybody goes on, and what was written on both sides is there afterwards
    lan.cut("c")
    write_on_all([a, b, c], "cut")
    sleep(CUT_S)
    assert c.client().get("cut/host-a") is None
    lan.heal("c")
    healed(a, b, c)
    assert len(c.client().conflicts()) == 1

    assert lan.reaches("a", "c")

    # one way only: what a says to c is lost, b brings it
    lan.mute("a", "c")
    write_on_all([a, b, c], "mute")
    wait_until(lambda: c.client().get("mute/host-a") == "mute", what="b brings to c what a cannot")
    wait_until(lambda: a.client().get("mute/host-c") == "mute", what="b brings to a what c says")
    lan.unmute("a", "c")
    healed(a, b, c)

    # flapping
    for _ in range(8):
        lan.cut("b")
        sleep(0.2)
        lan.heal("b")
        write_on_all([a, b, c], "flap")
        sleep(0.3)
    healed(a, b, c)

    # removed while it cannot hear of it: it is refused when it comes back
    lan.cut("c")
    run(a, "cluster", "remove", "host-c")
    wait_until(lambda: "removed" in run(b, "cluster", "members"))
    c.client().set("after/removal", 1)
    lan.heal("c")
    c.wait_log(lambda event: "host-c was removed" in str(event), 90)
    assert a.client().get("after/removal") is None
    a.client().set("left", 1, w="all")


def test_members_find_each_other_when_all_addresses_have_changed(lan: Lan) -> None:
    a, b = lan.start("a"), lan.start("b")
    run(a, "cluster", "init", "--listen", "0.0.0.0:7420")
    run(b, "cluster", "join", run(a, "cluster", "invite"), "--listen", "0.0.0.0:7420")
    meet(a, b)
    for daemon in (a, b):
        daemon.kill()
    for number, name in enumerate("ab", 101):
        ip("-n", lan.space(name), "addr", "flush", "dev", "eth0")
        ip("-n", lan.space(name), "addr", "add", f"10.99.{os.getpid() % 250}.{number}/24", "dev", "eth0")
    for daemon in (a, b):
        daemon.start(mdns=True)
    meet(a, b)
    a.client().set("k", 1, w="all")


def healed(*daemons: Daemon) -> None:
    wait_until_equal(daemons, 90)
    meet(*daemons, timeout_s=90)
