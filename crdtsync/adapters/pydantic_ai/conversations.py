"""Pydantic AI's store of conversations.

pydantic-ai/record/CONVERSATION    where its history ends, its usage, its branches: a ``ConversationRecord``
pydantic-ai/entry/ENTRY            {"parent": …, "message": …, "of": CONVERSATION}
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter
from pydantic_ai.conversation_store import (
    ConversationConflict,
    ConversationEntry,
    ConversationRecord,
    ConversationStore,
)
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import ModelMessagesTypeAdapter

from crdtsync.adapters.attached import CHANGE_OPERATIONS, Attached, check_each, in_changes
from crdtsync.adapters.readable import newest_readable, readable
from crdtsync.adapters.threads import reading, writing
from crdtsync.errors import TooLarge, VersionMismatch

if TYPE_CHECKING:
    from crdtsync.client import Entry

_RECORD = TypeAdapter(ConversationRecord)


class CrdtConversationStore(Attached, ConversationStore):
    """Keeps conversations on this host's disk and on every other host.

    Arguments are those of :class:`~crdtsync.adapters.attached.Attached`. A message has at most 1 MiB.

    Of one conversation that two hosts have saved while they were cut off, the one saved last is loaded, and the history
    of the other is one of its ``branches``. Deleting a conversation deletes its messages, but for those that a fork of
    it shares; what another host saves at the same time stays, without the messages before.

    It may be used from any event loop and thread: every call waits in a thread of its own.
    """

    PREFIX = "pydantic-ai"

    # -- records ----------------------------------------------------------------------------------------------

    @reading
    def read_record(self, conversation_id: str) -> ConversationRecord | None:
        """The record of a conversation, the newest that can be read; None if there is none.

        :raises UserError: something is there, and nothing that can be read.
        """
        entry = self._client.entry(self._keys.key("record", conversation_id))
        return None if entry is None else self._record(entry)

    @reading
    def read_records(self, *, scope: str | None = None, limit: int | None = None) -> Sequence[ConversationRecord]:
        """The records, or those of a scope, the one saved last first; at most ``limit``."""
        found = [each for each in self._records() if scope is None or each.scope == scope]
        return sorted(found, key=lambda record: record.updated_at, reverse=True)[:limit]

    def _records(self) -> list[ConversationRecord]:
        entries = self._client.entries(self._keys.below("record"))
        return [record for entry in entries for _, record in readable(entry.key, [entry], self._record)]

    def _record(self, entry: Entry) -> ConversationRecord:
        """The record that was saved last, with what others have saved as its branches."""
        record = newest_readable(self._client, entry, _as_record, UserError)
        lost = [tip for tip in _tips(entry) if tip not in (record.head_id, *record.branches)]
        return replace(record, branches=[*lost, *record.branches])

    @writing
    def write_record(
        self,
        record: ConversationRecord,
        *,
        new_entries: Sequence[ConversationEntry] = (),
        expected_revision: str | None,
    ) -> None:
        """Store a record and entries, all or nothing where they fit into one change; else the entries first.

        :raises ConversationConflict: the record that this host has is another one than is expected.
        """
        key = self._keys.key("record", record.conversation_id)
        held = self._client.entry(key)
        revision = None if held is None else self._record(held).revision
        if revision != expected_revision or not self._has(record.head_id, new_entries):
            raise ConversationConflict(record.conversation_id)
        if held is not None:  # what the others ended with is a branch, also where the record was read before they came
            lost = [each for each in _tips(held) if each not in (record.head_id, *record.branches)]
            record = replace(record, branches=[*lost, *record.branches])
        condition: dict[str, Any] = {"if_absent": True} if held is None else {"if_version": held.version}
        new = [(self._keys.key("entry", each.id), self._stored(each, record)) for each in new_entries]
        check_each((f"the conversation {record.conversation_id!r}", stored) for _, stored in new)
        try:
            try:
                self._put(new, record, condition)
            except TooLarge:  # the entries first: nobody sees them before the record names them
                in_changes(lambda part: self._put(part, record, None), new)
                self._put([], record, condition)
        except VersionMismatch as error:
            raise ConversationConflict(record.conversation_id) from error

    def _has(self, head: str | None, new: Sequence[ConversationEntry]) -> bool:
        is_new = head is None or any(entry.id == head for entry in new)
        return is_new or self._client.get(self._keys.key("entry", str(head))) is not None

    def _stored(self, entry: ConversationEntry, record: ConversationRecord) -> dict[str, Any]:
        (message,) = ModelMessagesTypeAdapter.dump_python([entry.message], mode="json")
        return {"parent": entry.parent_id, "message": self._redacted(message), "of": record.conversation_id}

    def _put(
        self, new: Sequence[tuple[str, Any]], record: ConversationRecord, condition: dict[str, Any] | None
    ) -> None:
        """Write entries as one change, with their record if there is a condition for it."""
        with self._client.batch(w=self._w) as batch:
            for key, stored in new:
                batch.set(key, stored)
            if condition is not None:
                key = self._keys.key("record", record.conversation_id)
                batch.set(key, self._redacted(_RECORD.dump_python(record, mode="json")), **condition)

    @writing
    def delete_record(self, conversation_id: str, *, expected_revision: str) -> None:
        """Delete a conversation and its messages, but for those that a fork of it has, or that it has as a fork.

        :raises ConversationConflict: the record that this host has is another one than is expected.
        """
        key = self._keys.key("record", conversation_id)
        held = self._client.entry(key)
        record = None if held is None else self._record(held)
        if held is None or record is None or record.revision != expected_revision:
            raise ConversationConflict(conversation_id)
        gone = [self._keys.key("entry", entry) for entry in self._own(record)]
        try:
            with self._client.batch(w=self._w) as batch:
                batch.delete(key, if_version=held.version)
                for each in gone[:CHANGE_OPERATIONS]:
                    batch.delete(each, seen=None)
        except VersionMismatch as error:
            raise ConversationConflict(conversation_id) from error
        self._write_all("delete", [(each,) for each in gone[CHANGE_OPERATIONS:]], seen=None)

    def _own(self, record: ConversationRecord) -> list[str]:
        """The entries of a conversation that no other one has. Only a fork has entries that another one has saved."""
        others = [each for each in self._records() if each.conversation_id != record.conversation_id]
        names = {each.conversation_id for each in others}
        forks = [self._reached(each) for each in others if each.forked_from is not None]
        reached = self._reached(record).items()
        return [entry for entry, of in reached if of not in names and all(entry not in fork for fork in forks)]

    # -- entries ----------------------------------------------------------------------------------------------

    async def read_entry(self, entry_id: str) -> ConversationEntry:
        """An entry.

        :raises KeyError: there is none.
        """
        (entry,) = await self.read_history(entry_id, limit=1)
        return entry

    @reading
    def read_history(self, head_id: str | None, *, limit: int | None = None) -> list[ConversationEntry]:
        """The entries up to one, oldest first; the newest ``limit`` of them.

        :raises KeyError: there is no such entry.
        """
        line: list[ConversationEntry] = []
        for entry, _ in self._line(head_id):
            if len(line) == limit:
                break
            line.append(entry)
        if head_id is not None and not line and limit != 0:
            raise KeyError(head_id)
        return line[::-1]

    def _line(self, head: str | None) -> Iterator[tuple[ConversationEntry, str]]:
        """The entries from one back to the first, each with the conversation that has saved it; those before one that
        was deleted, or that another program has replaced by something else, are not missed.

        Where somebody has made a circle of them, it ends with the last one that is new.
        """
        met: set[str] = set()
        while head is not None and head not in met:
            key = self._keys.key("entry", head)
            stored = self._client.get(key)
            found = [] if stored is None else [*readable(key, [stored], partial(_entry, head))]
            if not found:
                return
            met.add(head)
            ((_, (entry, of)),) = found
            yield entry, of
            head = entry.parent_id

    def _reached(self, record: ConversationRecord) -> dict[str, str]:
        """The entries of a conversation's history and its branches, each with the conversation that has saved it."""
        reached: dict[str, str] = {}
        for tip in (record.head_id, *record.branches):
            for entry, of in self._line(tip):
                if entry.id in reached:
                    break
                reached[entry.id] = of
        return reached


def _entry(name: str, stored: Any) -> tuple[ConversationEntry, str]:
    """An entry, and the conversation that has saved it."""
    (message,) = ModelMessagesTypeAdapter.validate_json(json.dumps([stored["message"]]))
    return ConversationEntry(id=name, parent_id=stored["parent"], message=message), stored["of"]


def _as_record(stored: Any) -> ConversationRecord:
    record: ConversationRecord = _RECORD.validate_json(json.dumps(stored))
    return record


def _tips(entry: Entry) -> list[str]:
    """Where the histories and branches end of those that saved a conversation and are not shown."""
    others = readable(entry.key, [each.value for each in entry.siblings[::-1]], _as_record)
    tips = [tip for _, record in others for tip in (*record.branches, record.head_id)]
    return [*dict.fromkeys(tip for tip in tips if tip is not None)]
