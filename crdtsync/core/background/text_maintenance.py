"""Upkeep of a node's texts: it makes long ones ready for edits, compacts bulky ones, writes torn ones anew, unloads
idle ones.

The first edit of a document since it was loaded needs to know where each item stands, which takes 0.4 s for 40,000. So
that is found out in steps, one a turn, and the edit waits, as do all that come after it. A compaction looks at each
item too, which takes a second for 50,000. So it is done in steps as well; the new document takes in what was edited
meanwhile. So is counted, for a document in which edits compete for the same places, how long it may take to load
(:mod:`crdtsync.wire.yjs.competition`).
"""

from __future__ import annotations

from collections.abc import Mapping

from crdtsync.causality import Dot
from crdtsync.core.alarm_catalogue import TEXT_CONTESTED
from crdtsync.core.identity import OWN_AGENT
from crdtsync.core.kinds.draft import Draft
from crdtsync.core.kinds.text_join import has_many_older, replace
from crdtsync.core.replica.replica import Replica
from crdtsync.core.space import Applied
from crdtsync.core.sync.text_repair import write_anew
from crdtsync.core.text.document import ITEMS_MAX
from crdtsync.core.text.family import families, family_of, with_fresh
from crdtsync.core.text.forgetting import Forgotten
from crdtsync.core.text.passing import find_out_before
from crdtsync.errors import CrdtSyncError
from crdtsync.named_tuple import NamedTuple
from crdtsync.wire.yjs.encoding import Steps


class _UnderWay(NamedTuple):
    """A compaction of the document that ``key`` names."""

    key: str
    dot: Dot
    steps: Steps[Forgotten]


class TextKeeper:
    """Keeps the texts of one replica. Writes only while ``is_writable``."""

    __slots__ = ("_counting", "_readying", "_replica", "_under_way", "has_readied")

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._under_way: _UnderWay | None = None
        self._counting: tuple[Dot, Steps[None]] | None = None
        self._readying: tuple[Dot, Steps[None]] | None = None
        self.has_readied = False
        """Whether the last slice was the last one of what requests wait for."""

    def keep(self, now_ms: int, is_writable: bool) -> list[Applied]:
        """Do a slice of what there is to do; returns the changes that came of it."""
        replica = self._replica
        applied: list[Applied] = []
        self.has_readied = False
        if not (is_writable and (replica.documents.unready or replica.documents.to_compact)):
            replica.documents.made.clear()  # who wanted it has it; else somebody may wait for several of them
            replica.documents.joins.clear()
        self._count(now_ms, is_writable)
        if is_writable:
            applied += self._make_ready(now_ms)
            for document in sorted(replica.texts.torn)[:1]:
                applied += self._write_anew(document, replica.texts.torn.pop(document), now_ms)
            if self._under_way is not None:
                applied += self._go_on(self._under_way, now_ms)
        if self._under_way is None and replica.documents.to_compact:
            self._begin(next(iter(replica.documents.to_compact)))
        elif self._under_way is None:
            dot = replica.documents.take_unedited()
            key_unedited = None if dot is None else replica.documents.key_of(dot)
            if key_unedited is not None and is_writable:
                self._compact(key_unedited, now_ms)
        if not self.has_readied:  # else what has waited is to find the others still there
            replica.documents.unload()
        return applied

    def deadline_s(self, now_s: float, is_writable: bool) -> float | None:
        """When :meth:`keep` has something to do."""
        documents = self._replica.documents
        is_due = self._replica.texts.torn or documents.unready or documents.to_compact or self._under_way is not None
        if documents.made or documents.joins or (is_writable and is_due):
            return now_s
        if self._counting is not None or documents.contested or self.has_readied:
            return now_s
        return documents.unload_due_s()

    def _make_ready(self, now_ms: int) -> list[Applied]:
        """Do one step of making a document ready for edits; the changes of others that have waited for the last one."""
        documents = self._replica.documents
        if self._readying is None:
            self._readying = next(iter(documents.unready.items()), None)
        if self._readying is None:
            return []
        dot, steps = self._readying
        for _ in steps:
            return []
        self._readying = None
        ready = [other for other, its in documents.unready.items() if its is steps]
        if dot not in documents.unready:  # it is gone: who waits for it is to know
            ready.append(dot)
        for each in ready:
            documents.unready.pop(each, None)
        self.has_readied = True
        return [applied for each in ready for applied in self._replica.document_ready(each, now_ms)]

    def _count(self, now_ms: int, is_writable: bool) -> None:
        """Do one step of counting what it takes to load a document; compact one that takes long."""
        replica = self._replica
        if self._counting is None:
            dot = next(iter(replica.documents.contested), None)
            if dot is not None:
                del replica.documents.contested[dot]
                self._counting = dot, replica.documents.get(dot, is_use=False).count()
            return
        dot, steps = self._counting
        key = replica.documents.key_of(dot)
        try:
            next(steps)
        except StopIteration:
            self._counting = None
        except CrdtSyncError as error:
            self._counting = None
            self._stays("text_not_counted", key or "", error)
        else:
            return
        document = replica.documents.get(dot, is_use=False)
        if key is None or not document.is_crowded:
            return
        if document.is_contested or document.items > ITEMS_MAX:
            self._tell_contested(key, dot)
        if is_writable and self._under_way is None:
            self._compact(key, now_ms)

    def _tell_contested(self, key: str, dot: Dot) -> None:
        replica = self._replica
        family = family_of(replica.entries.held(key), dot)
        last = family.entries[-1] if family is not None else None
        who = "" if last is None else f", the last one by {last.agent} on {replica.node_of(last.writer)}"
        replica.alarms.raise_once(
            TEXT_CONTESTED,
            replica.name,
            f"space {replica.name}: edits of the text {key!r} compete for the same places, or have left it in too many "
            f"pieces{who}; nothing more may be inserted here until it is compacted",
            [key],
        )

    def _compact(self, key: str, now_ms: int) -> None:
        """Begin with it if that is worth it."""
        found = self._alone(key, now_ms)
        if found is None:
            return
        dot, began_with = found
        try:
            document = self._replica.documents.get(dot, is_use=False)
            is_worth_it = document.is_bulky(began_with) and not self._has_many_older(key, dot)
            if is_worth_it or document.is_crowded:
                self._begin(dot)
        except CrdtSyncError as error:
            self._stays("text_not_compacted", key, error)

    def _has_many_older(self, key: str, dot: Dot) -> bool:
        return has_many_older(self._replica.documents, self._replica.entries.held(key), dot)

    def _begin(self, dot: Dot) -> None:
        key = self._replica.documents.key_of(dot) or ""
        self._under_way = _UnderWay(key, dot, self._made_anew(key, dot))

    def _made_anew(self, key: str, dot: Dot) -> Steps[Forgotten]:
        """Make it anew, and find out where what is edited meanwhile stands in that."""
        made = yield from self._replica.documents.make_anew(dot)
        family = family_of(self._replica.entries.held(key), dot)
        if family is not None:
            family.members = with_fresh(family.members, made.document.dot, made.cut)
            yield from find_out_before(self._replica.documents, family, made.document)
        return made

    def _go_on(self, work: _UnderWay, now_ms: int) -> list[Applied]:
        """Do one step of it, or write what has come of it down."""
        replica = self._replica
        try:
            next(work.steps)
        except StopIteration as end:
            made: Forgotten = end.value
        except CrdtSyncError as error:
            self._under_way = None
            if not self._hand_out(work.dot, error):
                self._stays("text_not_compacted", work.key, error)
            return []
        else:
            return []
        self._under_way = None
        if self._hand_out(work.dot, made):
            return []
        found = self._alone(work.key, now_ms)
        try:
            if found is None or found[0] != work.dot:
                return []
            draft = Draft(replica, now_ms)
            replace(draft, work.key, work.dot, made)
            return [replica.commit(draft.ops, OWN_AGENT, None, now_ms, draft.edits)] if draft.ops else []
        except CrdtSyncError as error:
            self._stays("text_not_compacted", work.key, error)
            return []

    def _hand_out(self, dot: Dot, made: Forgotten | CrdtSyncError) -> bool:
        """Give it to who waits for it, if anybody does."""
        documents = self._replica.documents
        if dot not in documents.to_compact:
            return False
        del documents.to_compact[dot]
        documents.made[dot] = made
        self.has_readied = True
        return True

    def _alone(self, key: str, now_ms: int) -> tuple[Dot, Mapping[int, int]] | None:
        """The document that is all of a key, and what it began with, if this node is to compact it: the one that wrote
        the text last, so that not all do it.
        """
        replica = self._replica
        texts = families(replica.entries.live(key, now_ms))
        if len(texts) != 1 or len({entry.kind for entry in replica.entries.held(key)}) != 1:
            return None
        dot = texts[0].current
        if not replica.is_own(texts[0].entries[-1].writer) or replica.documents.is_dirty(dot):
            return None
        return dot, texts[0].members[dot].began_with()

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
