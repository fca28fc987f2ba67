"""What a node does about its texts by itself: brings late edits over, compacts bulky documents, writes torn ones
anew, unloads idle ones.
"""

from __future__ import annotations

from crdtsync.causality import Dot
from crdtsync.core.identity import OWN_AGENT
from crdtsync.core.replica.change_draft import Draft
from crdtsync.core.replica.replica import Applied, Replica
from crdtsync.core.sync.text_repair import write_anew
from crdtsync.core.text.join import bring_over, compact
from crdtsync.core.text.lineage import by_document
from crdtsync.errors import CrdtSyncError

TURN_KEYS_MAX = 8
"""Texts that are looked at in one turn."""


class TextKeeper:
    """Keeps the texts of one replica. Writes only while ``is_writable``."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica

    def keep(self, now_ms: int, is_writable: bool) -> list[Applied]:
        """Do a slice of what there is to do; returns the changes that came of it."""
        replica = self._replica
        applied: list[Applied] = []
        if is_writable:
            for key in sorted(replica.texts.due)[:TURN_KEYS_MAX]:
                replica.texts.due.discard(key)
                applied += self._bring_over(key, now_ms)
            for document in sorted(replica.texts.torn)[:1]:
                applied += self._write_anew(document, replica.texts.torn.pop(document), now_ms)
        dot = replica.documents.take_unedited()
        key_unedited = None if dot is None else replica.documents.key_of(dot)
        if key_unedited is not None and is_writable:
            applied += self._compact(key_unedited, now_ms)
        replica.documents.unload()
        return applied

    def deadline_s(self, now_s: float, is_writable: bool) -> float | None:
        """When :meth:`keep` has something to do."""
        if is_writable and (self._replica.texts.due or self._replica.texts.torn):
            return now_s
        return self._replica.documents.unload_due_s()

    def _bring_over(self, key: str, now_ms: int) -> list[Applied]:
        replica = self._replica
        groups = by_document(replica.entries.held(key))
        if len(groups) < 2 or any(replica.documents.is_dirty(dot) for dot in groups):
            return []  # what is not yet on disk brings the key again
        try:
            op = bring_over(replica, key)
            return [] if op is None else [replica.commit([op], OWN_AGENT, None, now_ms)]
        except CrdtSyncError as error:
            self._stays("text_not_brought_over", key, error)
            return []

    def _compact(self, key: str, now_ms: int) -> list[Applied]:
        """Only on the node that wrote the text last, so that not all do it."""
        replica = self._replica
        groups = by_document(replica.entries.live(key, now_ms))
        if len(groups) != 1 or len(groups) != len({entry.kind for entry in replica.entries.held(key)}):
            return []
        ((dot, group),) = groups.items()
        if not replica.is_own(group[-1].dot.writer) or replica.documents.is_dirty(dot):
            return []
        try:
            if not replica.documents.get(dot, is_use=False).is_bulky():
                return []
            draft = Draft(replica, now_ms, replica.node_of)
            compact(draft, key, group)
            return [replica.commit(draft.ops, OWN_AGENT, None, now_ms)] if draft.ops else []
        except CrdtSyncError as error:
            self._stays("text_not_compacted", key, error)
            return []

    def _write_anew(self, document: Dot, theirs: bytes, now_ms: int) -> list[Applied]:
        replica = self._replica
        key = replica.documents.key_of(document) or ""
        try:
            applied = write_anew(replica, document, theirs, now_ms)
        except CrdtSyncError as error:
            self._stays("text_not_rewritten", key, error)
            return []
        if applied:
            replica.alarms.journal("text_rewritten", space=replica.name, key=key)
        return applied

    def _stays(self, event: str, key: str, error: CrdtSyncError) -> None:
        self._replica.alarms.journal(event, space=self._replica.name, key=key, reason=error.message)
