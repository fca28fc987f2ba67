"""The parts of blobs that a space holds: whose they are, and when they go.

Ann deletes a blob of 300 MB. Her change removes the entry, and with it the parts that the entry named: so they go on
every node together with it, and a part that somebody else may still need is never among them. An upload that nobody
finishes has parts and no entry. The node that wrote them removes them when nothing has come for a day
(:mod:`crdtsync.core.background.upload_sweep`); nobody else does, for the entry may be on its way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from crdtsync.core.crdt.entries import Entries
from crdtsync.core.crdt.entry import Entry, reach_of
from crdtsync.core.crdt.key_entries import covered_by
from crdtsync.wire.blobs import manifest_of, parts_key, upload_of
from crdtsync.wire.change import Op, RemoveRange
from crdtsync.wire.kinds import Kind
from crdtsync.wire.limits import CHANGE_OPS_MAX

BLOB_BYTES_MAX = 1024 * 1024 * 1024


class Uploads:
    """The uploads of one space, kept in step with its entries: a caller that changes entries reports that with
    :meth:`note`.
    """

    __slots__ = ("_by_key", "_entries", "bytes_max", "have_gone")

    def __init__(self, entries: Entries) -> None:
        self.bytes_max = BLOB_BYTES_MAX
        self.have_gone = True
        """Whether parts may have gone whose bytes are still on disk."""
        self._entries = entries
        self._by_key: dict[str, dict[str, None]] = {}

    def __len__(self) -> int:
        return len(self._by_key)

    def note(self, key: str) -> None:
        """Entries of a reserved key have come or gone."""
        found = upload_of(key)
        if found is None:
            return
        blob, upload = found
        if self._entries.held(key):
            self._by_key.setdefault(blob, {})[upload] = None
            return
        self.have_gone = True
        uploads = self._by_key.get(blob, {})
        uploads.pop(upload, None)
        if not uploads:
            self._by_key.pop(blob, None)

    def named(self, held: Iterable[Entry]) -> set[str]:
        """The uploads that these entries show."""
        manifests = (manifest_of(entry.value) for entry in held if entry.kind == Kind.BLOB)
        return {manifest.upload for manifest in manifests if manifest is not None}

    def unfinished(self, key: str) -> list[tuple[str, list[Entry]]]:
        """The uploads of a blob that no entry shows, each with its parts, as they were written."""
        shown = self.named(self._entries.held(key))
        found = [upload for upload in self._by_key.get(key, ()) if upload not in shown]
        return [(upload, self._entries.held(parts_key(key, upload))) for upload in found]

    def all_unfinished(self) -> Iterator[tuple[str, list[Entry]]]:
        """The same of all blobs: under which key the parts stand, and the parts."""
        for key in sorted(self._by_key):
            for upload, parts in self.unfinished(key):
                yield parts_key(key, upload), parts

    def with_parts(self, ops: Sequence[Op]) -> Sequence[Op]:
        """The operations of an own change, and those that remove the parts of the blobs that they remove.

        Parts whose removal does not fit into the change are cleared away later, like those of unfinished uploads.
        """
        if not self._by_key:
            return ops
        more: list[Op] = []
        for key in dict.fromkeys(op.key for op in ops if op.key in self._by_key):
            gone = self.named(self._entries.held(key)) - self._named_after(key, ops)
            for upload in sorted(gone & self._by_key[key].keys()):
                if len(ops) + len(more) < CHANGE_OPS_MAX:
                    parts = parts_key(key, upload)
                    more.append(removal(parts, self._entries.held(parts)))
        return [*ops, *more] if more else ops

    def _named_after(self, key: str, ops: Sequence[Op]) -> set[str]:
        left = [*self._entries.held(key)]
        found: set[str] = set()
        for op in ops:
            if op.key == key and op.removes:
                gone = {entry.dot for entry in covered_by(left, op.removes)}
                left = [entry for entry in left if entry.dot not in gone]
            if op.key == key and op.kind == Kind.BLOB and (manifest := manifest_of(op.value)) is not None:
                found.add(manifest.upload)
        return found | self.named(left)


def removal(key: str, parts: Sequence[Entry]) -> Op:
    """The operation that removes all parts of an upload that are here."""
    return Op(key, None, Kind.MAP, None, None, RemoveRange(reach_of(parts)[0]), None)
