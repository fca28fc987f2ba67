"""What a trace comes to without any daemon: all authors in this process, each merging exactly what they had seen."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from benchmarks.editor import ClientIds, Editor, rebuilt

if TYPE_CHECKING:
    from benchmarks.traces import Trace, Transaction


def replica_for(transaction: Transaction, editor: Editor | None, client_ids: ClientIds) -> Editor:
    """The replica to make a transaction in, once what it misses has been merged.

    That is the author's own ``editor``, unless it holds more than the author had seen: an author who went back to an
    older text starts from an empty replica.
    """
    if editor is None or any(count > transaction.past.get(chain, 0) for chain, count in editor.held.items()):
        return Editor(client_ids.new(transaction.agent))
    return editor


def end_content(trace: Trace) -> str:
    """The text after all transactions, by Yjs alone."""
    client_ids = ClientIds(Random(0))
    updates: list[bytes] = []
    editors: dict[int, Editor] = {}
    for transaction in trace.transactions:
        editor = replica_for(transaction, editors.get(transaction.agent), client_ids)
        editors[transaction.agent] = editor
        editor.merge(updates[index] for index in trace.missing(editor.held, transaction.past))
        updates.append(editor.edit(transaction.patches))
        editor.held = transaction.past_with_itself()
    return rebuilt(updates)
