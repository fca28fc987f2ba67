"""Faults in what a session may count on: what it has seen, and what its writes replace."""

from __future__ import annotations

from types import SimpleNamespace

from crdtsync.client.protocol.seen_point import Horizon
from crdtsync.core.agents.dispatcher import Dispatcher
from crdtsync.core.agents.retry_replies import Outcomes
from crdtsync.core.kinds.draft import Draft
from crdtsync.core.replica.write_operations import WRITES
from tests.simulator.faults.planting import Patches, fault
from tests.simulator.kinds import REGISTERS


@fault("a session was shown less than before")
def daemons_that_do_not_wait_for_what_a_session_has_seen(patch: Patches):
    """An answer from a node that is behind what its reader has seen elsewhere."""
    handle = Dispatcher.handle

    def careless(self, agent, request, name, args):
        return handle(self, agent, request, name, {key: value for key, value in args.items() if key != "need"})

    patch.setattr(Dispatcher, "handle", careless)


@fault("a session wrote before what it had been shown")
def writes_that_do_not_wait(patch: Patches):
    handle = Dispatcher.handle

    def careless(self, agent, request, name, args):
        kept = args if name not in WRITES else {key: value for key, value in args.items() if key != "need"}
        return handle(self, agent, request, name, kept)

    patch.setattr(Dispatcher, "handle", careless)


@fault("a session")
def points_that_are_not_told(patch: Patches):
    """A session counts what it wrote, and not what it was shown."""
    patch.setattr(Dispatcher, "news", lambda *_: None)


@fault("a session was shown less than before")
def clients_that_forget_when_they_move(patch: Patches):
    patch.setattr(Horizon, "moved", Horizon.forget)


@fault("where its author had seen")
def seen_means_what_is_alive_here(patch: Patches):
    """The lost update: a write supersedes what its daemon holds by then, not what its author had read."""
    patch.setattr(Draft, "covered", lambda self, held, version, others: list(held))


@fault("removes what its node did not hold")
def seen_is_not_cut(patch: Patches):
    """What a session read elsewhere is removed here too, before it has arrived."""
    covered = Draft.covered

    def uncut(self, held, version, others):
        elsewhere = {*version.dots} - {entry.dot for entry in held}
        return [*covered(self, held, version, others), *(SimpleNamespace(dot=dot, kind=0) for dot in elsewhere)]

    patch.setattr(Draft, "covered", uncut)


@fault("where its author had seen")
def blind_write_removes_all(patch: Patches):
    patch.setattr(Draft, "expired", lambda draft, key: tuple(entry.dot for entry in draft.held(key)))


@fault("where its author had seen", keys=REGISTERS)
def writes_sent_at_once_do_not_follow_each_other(patch: Patches):
    patch.setattr(Outcomes, "versions", lambda self, client, follows: {})


@fault("for the second time")
def retries_not_recognised(patch: Patches):
    patch.setattr(Outcomes, "earlier", lambda self, client, number: None)
