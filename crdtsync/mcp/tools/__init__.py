"""The tools that a model is offered: few, with words that tell it which one to take.

Open first: ``reading``. A module has a function ``tools(sessions)`` that gives a
:class:`~crdtsync.mcp.tools.table.Tool` for each of its tools; ``crdtsync.mcp.server`` registers them.

Modules:

- ``table``: what a tool is, and which of them a server offers
- ``reading``: read, list, view, history, conflicts
- ``writing``: write, append, edit_text, delete, resolve, checkpoint, restore
- ``following``: wait_for_change
- ``coordinating``: claim, release, remember, recall
- ``tasks``: put_task, take_task, finish_task
- ``people``: ask_person, who_is_here

May import: ``crdtsync.mcp.answers``, ``crdtsync.mcp.session``, ``crdtsync.context``, ``crdtsync.coordination``, the
public client, and the package ``mcp``.
"""
