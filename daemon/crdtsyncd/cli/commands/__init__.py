"""Commands: one module for each command or family of commands; imported only when it is called.

Open first: ``keys.get``, a short one. A module declares click commands with
:func:`~crdtsyncd.cli.command.state_command`. The table of ``crdtsyncd.cli.app`` is the one list of them: it says which
command is in which module, and in which section of the help.

A command is thin. It reads arguments, calls one or two methods of the client, and prints through
``crdtsyncd.cli.show``. It handles no errors: the run around it turns an exception into a sentence and an exit status.

Example: ``crdtsync incr spent 3`` is ``kinds.counters.incr``: it calls ``client.incr("spent", 3)`` and prints the
new value.

Rooms, by subject:

- ``keys``: values by key, one or many
- ``kinds``: what several authors build together: counters, logs, maps, sets, texts
- ``conflicts``: keys with several values, what was before, and schemas
- ``time``: checkpoints, and the way back to one
- ``together``: claims, tasks, questions to people, who is there
- ``context``: what goes into a model's window, and sessions of coding agents
- ``cluster``: members, spaces, rights
- ``node``: one node: how it is, and its care

May import: all of ``crdtsyncd.cli``, the rooms of the daemon below that, the public client,
``crdtsync.context``, ``crdtsync.coordination``, ``crdtsync.mcp`` and ``crdtsync.sessions``.
"""
