"""Fleets under every kind of trouble keep their promises: convergence, causality, nothing lost, nothing leaves early.

Two ways to make trouble. Hypothesis chooses what happens and shrinks what fails to a short story. Seeded random
histories are longer; a failure names its seed, and ``run_history(seed)`` replays it. For more of them:
``CRDTSYNC_HISTORIES=5000 ./dev soak tests/property``, with ``CRDTSYNC_SEED`` for where to begin.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from tests.examples import examples
from tests.simulator.histories import run_history
from tests.simulator.kinds import COUNTERS, LOGS, MAPS, MIXED, REGISTERS, SETS, TEXTS
from tests.simulator.late import Late, Never
from tests.simulator.player import SKEWS_MS, TINY_CAPS, Player
from tests.simulator.world import World

HISTORIES = int(os.environ.get("CRDTSYNC_HISTORIES", "1000"))
EXERCISED = (1, 28, 54, 79)  # together they do everything; where that changes, take others
FIRST_SEED = int(os.environ.get("CRDTSYNC_SEED", "0"))


class Troubles(RuleBasedStateMachine):
    """Each rule is one thing that can happen; after all of them the fleet heals and is checked."""

    def __init__(self) -> None:
        super().__init__()
        self.world: World | None = None
        self.sound = True

    @initialize(
        seed=st.integers(0, 2**32 - 1),
        hosts=st.integers(2, 4),
        skewed=st.booleans(),
        small=st.booleans(),
        caps=st.sampled_from((None, *TINY_CAPS)),
        connected=st.booleans(),
    )
    def build(self, seed, hosts, skewed, small, caps, connected):
        self.world = World(seed, hosts, SKEWS_MS if skewed else (0,), small, caps)
        self.player = Player(self.world, lambda: 0.0)
        if connected:
            self.player.connect_all()

    def play(self, data, action, *arguments):
        """Do it, drawing every choice from Hypothesis. What it raises is not looked for again while closing."""
        self.player.draw = lambda: data.draw(st.integers(0, 999)) / 1000
        try:
            getattr(self.player, action)(*arguments)
        except BaseException:
            self.sound = False
            raise

    @rule(data=st.data(), key=st.sampled_from([*REGISTERS, MIXED]))
    def write_register(self, data, key):
        self.play(data, "write_key", key)

    @rule(data=st.data(), key=st.sampled_from([*LOGS, MIXED]))
    def write_log(self, data, key):
        self.play(data, "write_key", key)

    @rule(data=st.data(), key=st.sampled_from(TEXTS))
    def edit_text(self, data, key):
        self.play(data, "write_key", key)

    @rule(data=st.data(), key=st.sampled_from([*COUNTERS, *SETS, *MAPS]))
    def write_parts(self, data, key):
        self.play(data, "write_key", key)

    @rule(data=st.data())
    def resolve(self, data):
        self.play(data, "resolve")

    @rule(data=st.data(), action=st.sampled_from(["burst", "isolate", "keep_snapshot", "merge_kept", "merge_kept"]))
    def fall_behind(self, data, action):
        self.play(data, action)

    @rule(data=st.data())
    def write_batch(self, data):
        self.play(data, "write_batch")

    @rule(data=st.data())
    def read(self, data):
        self.play(data, "read")

    @rule(data=st.data(), action=st.sampled_from(["move", "reconnect", "forget", "watch", "watch"]))
    def agent_does(self, data, action):
        self.play(data, action)

    @rule(data=st.data())
    def commit(self, data):
        self.play(data, "turn")

    @rule(data=st.data())
    def connect(self, data):
        self.play(data, "connect")

    @precondition(lambda self: any(any(link.queues) for link in self.world.links))
    @rule(data=st.data())
    def deliver(self, data):
        self.play(data, "deliver")

    @precondition(lambda self: self.world.links)
    @rule(data=st.data(), action=st.sampled_from(["cut", "notice"]))
    def lose_connection(self, data, action):
        self.play(data, action)

    @rule(data=st.data(), action=st.sampled_from(["crash", "crash", "disk_full"]))
    def host_fails(self, data, action):
        self.play(data, action)

    @precondition(lambda self: len(self.world.up()) < len(self.world.hosts))
    @rule(data=st.data())
    def start(self, data):
        self.play(data, "start")

    @rule(data=st.data())
    def pass_time(self, data):
        self.play(data, "pass_time")

    def teardown(self):
        if self.world is None:
            return
        try:
            if self.sound:
                self.world.heal()
                self.world.check_converged()
                if self.world.caps is not None:
                    self.world.check_bounds()
                self.world.check_disks()
        finally:
            self.world.close()


TestTroubles = Troubles.TestCase
TestTroubles.settings = settings(
    examples(15), stateful_step_count=40, suppress_health_check=list(HealthCheck), print_blob=True
)


@pytest.mark.parametrize("seed", range(6))
def test_history(seed):
    run_history(seed)


@pytest.mark.parametrize("make_world", [Late, Never])
@pytest.mark.parametrize("seed", range(2))
def test_a_history_whose_rows_come_late_to_their_tables(seed, make_world):
    run_history(seed, make_world=make_world, is_tight=True)


def test_histories_exercise_what_they_are_about():
    """A history that never gets anywhere proves nothing."""
    counts = sum((run_history(seed).counts for seed in EXERCISED), start=Counter())
    for what in (
        "acknowledged set",
        "acknowledged delete",
        "acknowledged append",
        "acknowledged trim",
        "frame",
        "acknowledged text_apply",
        "acknowledged batch",
        "acknowledged incr",
        "acknowledged reset",
        "acknowledged add",
        "acknowledged discard",
        "acknowledged merge",
        "acknowledged drop",
        "acknowledged resolve",
        "acknowledged schema_set",
        "refused unresolved",
        "refused ranks_lower",
        "told expired",
        "told lagged",
        "mirror compared",
        "mirror told part",
        "mirror told reset",
        "snapshot",
        "merge",
        "crash",
        "cut",
        "full",
        "frozen",
        "slow commit",
        "power cut",
        "torn commit kept",
        "torn commit lost",
        "rolled back",
        "came back older",
        "copied",
        "joined",
        "left",
        "slept",
        "clock jumped",
        "message lost",
        "message repeated",
        "message swapped",
        "acknowledged by several",
    ):
        assert counts[what] > 0, what


@pytest.mark.soak
def test_many_histories():
    for seed in range(FIRST_SEED, FIRST_SEED + HISTORIES):
        run_history(seed, steps=(60, 120, 400)[seed % 3])
