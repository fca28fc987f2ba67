"""Faults in what watchers and mirrors are told."""

from __future__ import annotations

from crdtsync.client.mirror.state import MirrorState
from crdtsync.client.streams.held_events import HeldEvents
from crdtsync.client.streams.resume import Standing
from crdtsync.core.watch.change_watch import ChangeWatches
from crdtsync.core.watch.state_watch import StateWatches
from tests.simulator.faults.planting import Patches, fault
from tests.simulator.kinds import COUNTERS, REGISTERS
from tests.simulator.mirrors import MirrorWatcher


@fault("a mirror at")
def mirrors_lose_what_changes_during_their_snapshot(patch: Patches):
    """A key that was told already is not told again."""
    defer = StateWatches._defer

    def forgetful(self, watch, keys):
        if watch.scan is None:
            defer(self, watch, keys)

    patch.setattr(StateWatches, "_defer", forgetful)


@fault("a mirror at")
def mirrors_resume_without_looking_back(patch: Patches):
    def look_at_nothing(self, watch, *_):
        watch.position = None

    patch.setattr(StateWatches, "_look_back", look_at_nothing)


@fault("a mirror at")
def mirrors_ask_no_new_host_for_what_they_have_shown(patch: Patches):
    patch.setattr(Standing, "need", lambda self, after=None: {})


@fault("a mirror at")
def mirrors_show_what_is_not_whole(patch: Patches):
    """What has been told is shown after each frame."""
    take = MirrorState.take

    def hasty(self, message):
        changed = take(self, message)
        if message[1] == 2 and self._staged and self._token is not None:
            self._publish(self._token)
        return changed

    patch.setattr(MirrorState, "take", hasty)
    compare = MirrorWatcher.received

    def looking(self, message):
        compare(self, message)
        if message[1] == 2:
            self._compare()

    patch.setattr(MirrorWatcher, "received", looking)


@fault("a watcher at")
def slow_watchers_are_forgotten(patch: Patches):
    patch.setattr("crdtsync.core.watch.change_watch.ChangeWatches._defer", lambda self, watch, keys: None)


@fault("a watcher")
def resuming_stops_short(patch: Patches):
    """Between the log and the live stream a turn's changes fall through."""
    look_back = ChangeWatches._look_back

    def hasty(self, watch, *arguments):
        look_back(self, watch, *arguments)
        watch.position = None

    patch.setattr(ChangeWatches, "_look_back", hasty)
    patch.setattr("crdtsync.core.watch.change_watch.SLICE_CHANGES_MAX", 1)


@fault("a watcher at")
def watchers_are_not_told_of_a_snapshot(patch: Patches):
    patch.setattr(ChangeWatches, "retell", lambda self, name, keys, is_lagging: None)


@fault("was told of", keys=(*REGISTERS[:1], *COUNTERS[:1]), is_tight=True, steps=250)
def watches_hand_out_what_has_no_token(patch: Patches):
    """After a broken connection it is told again, and older than what came before."""

    def at_once(self, event, *, is_snapshot):
        self.ready.append(event)

    patch.setattr(HeldEvents, "add", at_once)
