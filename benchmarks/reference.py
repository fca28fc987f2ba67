"""What a trace comes to without any daemon: all authors in this process, each merging exactly what they had seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.editor import Editor, rebuilt

if TYPE_CHECKING:
    from benchmarks.traces import Trace, Transaction


def replica_for(trace: Trace, transaction: Transaction, editor: Editor) -> tuple[Editor, list[int]]:
    """The replica to make a transaction in, and what it must take in first.

    That is the author's own ``editor``, unless it holds more than the author had seen: an author who went back to an
    older text starts from an empty replica, and so with a Yjs client id of its own.
    """
    if any(count > transaction.past.get(chain, 0) for chain, count in editor.held.items()):
        editor = Editor()
    return editor, trace.missing(editor.held, transaction.past)


def end_content(trace: Trace) -> str:
    """The text after all transactions, by Yjs alone."""
    updates: list[bytes] = []
    editors = [Editor() for _ in range(trace.agents)]
    for transaction in trace.transactions:
        editor, missing = replica_for(trace, transaction, editors[transaction.agent])
        editors[transaction.agent] = editor
        editor.merge(updates[index] for index in missing)
        updates.append(editor.edit(transaction.patches))
        editor.held = {**transaction.past, transaction.chain: transaction.place}
    return rebuilt(updates)
