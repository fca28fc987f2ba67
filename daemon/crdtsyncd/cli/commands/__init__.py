"""Commands: one module for each command or family of commands; imported only when it is called.

Open first: ``keys.get``, a short one. A module declares click commands with
:func:`~crdtsyncd.cli.command.state_command`; ``crdtsyncd.cli.app`` names it in its table.

A command is thin. It reads arguments, calls one or two methods of the client, and prints through
``crdtsyncd.cli.show``. What it does on errors is nothing: the run around it turns an exception into a sentence and
an exit status.

Example: ``crdtsync incr spent 3`` is ``kinds.counters.incr``: it calls ``client.incr("spent", 3)`` and prints the
new value.

Rooms, by subject:

- ``keys``: values by key: set, get, del, ls, update, edit, export, import, import-from, batch, wait, watch
- ``kinds``: counters, logs, maps, sets, texts
- ``conflicts``: conflicts, resolve, history, resolver, schema, purge
- ``time``: checkpoint, undo
- ``together``: claim, release, claims, task, tasks, work, on, ask, asks, answer, who
- ``context``: view, search, context, tokens, mcp, session
- ``cluster``: cluster, space, agent, access
- ``node``: status, peers, explain, doctor, top, metrics, backup, restore, service

May import: all of ``crdtsyncd.cli``, the rooms of the daemon below that, the public client,
``crdtsync.context``, ``crdtsync.coordination``, ``crdtsync.mcp`` and ``crdtsync.sessions``.
"""
