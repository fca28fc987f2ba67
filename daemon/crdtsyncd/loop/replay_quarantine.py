"""Gives the core again what quarantine holds, a change at a time, and says with an alarm what stays there."""

from __future__ import annotations

from collections.abc import Callable
from traceback import format_exception

from crdtsyncd.storage.database import Store
from crdtsyncd.storage.journal.quarantine import QuarantinedChange
from crdtsyncd.telemetry.event_log import log

from crdtsync.core.alarm_catalogue import JOURNAL_GIVEN_UP, QUARANTINED
from crdtsync.core.interface import Now, Ready, TakeBack, Tick
from crdtsync.core.node import Node
from crdtsync.core.replay import decoded, is_held, replica_of
from crdtsync.errors import NoSpace, StorageError

NAMED_KEYS_MAX = 10
GIVEN_UP = (
    "the journal was given up by an empty file in its place: writes of before this start that were acknowledged may be "
    "missing here; docs/reference/alarms.md says more, under journal_given_up"
)


def take_back(node: Node, store: Store, now: Callable[[], Now], let_out: Callable[[Ready], None]) -> None:
    """Take in again what the tables lack, and let out what follows from it.

    :raises StorageError: the disk failed, as in :meth:`Store.commit`.
    """
    while _fails(node, store, now, let_out):
        pass  # memory was read anew, so what had come before waits no more: from the beginning, without that one
    look(node, store)
    if store.is_given_up:
        node.alarms.raise_once(JOURNAL_GIVEN_UP, "", GIVEN_UP)


def _fails(node: Node, store: Store, now: Callable[[], Now], let_out: Callable[[Ready], None]) -> bool:
    """Whether one of them cannot be taken in and is barred from now on; all before it have been taken in, or wait."""
    for kept in store.quarantine.changes():
        if is_held(node, kept.space, kept.writer, kept.seq):
            continue
        try:
            node.step(TakeBack(kept.space, kept.body), now())
            ready = node.ready()
            store.commit(ready.persist, is_direct=True)
        except (NoSpace, StorageError):
            raise
        except Exception as error:  # noqa: BLE001  # it fails again: a bug, which must not keep the rest away
            log("change_barred", level="error", **_named(kept), error="".join(format_exception(error)))
            node.barred.add((kept.space, kept.writer, kept.seq))
            let_out(node.step_failed(Tick(), f"{type(error).__name__}: {error}"))
            return True
        node.advance()
        let_out(ready)
    return False


def look(node: Node, store: Store) -> None:
    """Let go of what the tables have by now, from a peer perhaps, and raise or clear the alarm."""
    quarantine = store.quarantine
    if quarantine.count:
        quarantine.release(lambda kept: is_held(node, kept.space, kept.writer, kept.seq))
    sentence, keys = _sentence(node, store) if quarantine.count else ("", None)
    if any(alarm.code == "quarantined" and alarm.message != sentence for alarm in node.alarms.raised()):
        node.alarms.clear(QUARANTINED, "")
    if sentence:
        node.alarms.raise_once(QUARANTINED, "", sentence, keys)


def _sentence(node: Node, store: Store) -> tuple[str, list[str] | None]:
    """A sentence about what is kept aside, and its keys; None: they cannot be told of all of it."""
    quarantine = store.quarantine
    keys: dict[str, None] = {}
    is_legible = True
    for kept in quarantine.changes():
        replica = replica_of(node, kept.space)
        change = None if replica is None else decoded(replica, kept.body)
        is_legible &= change is not None
        keys.update(dict.fromkeys(op.key for op in change.ops) if change is not None else {})
    named = ", ".join([*keys][:NAMED_KEYS_MAX]) + (" and others" if len(keys) > NAMED_KEYS_MAX else "")
    sentence = (
        f"{quarantine.count:,} acknowledged commits fit into no table ({quarantine.why}) and are "
        f"kept aside{f'; keys: {named}' if keys else ''}; docs/reference/alarms.md says more, under quarantined"
    )
    return sentence, [*keys] if keys and is_legible else None


def _named(kept: QuarantinedChange) -> dict[str, object]:
    return {"space": kept.space, "writer": kept.writer, "seq": kept.seq}
