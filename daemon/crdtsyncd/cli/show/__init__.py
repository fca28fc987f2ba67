"""Show: what people and programs see of a command.

One rule for all commands: lists and streams are NDJSON, everything else is one object, with ``--json``; without it,
a value, or a table on a terminal. Control characters never reach a terminal, and a reader that goes away ends the
command quietly.

Open first: ``output``.

Example: ``crdtsync watch | head -3`` ends when head does: ``streams`` sees that nobody reads any more.

Modules:

- ``output``: values, objects and lists, as the options want them
- ``tables``: tables on a terminal
- ``streams``: for commands that print for as long as somebody reads: notices when nobody does any more
- ``progress``: a line on stderr that says how far long work is, where a person watches
- ``follow``: a log as it grows: what is there, then what comes, each element once
- ``watch_lines``: an event of a watch for people, as one line
- ``session_lines``: what became of a session of a coding agent

May import: the rest of ``crdtsyncd.cli`` but ``commands``, the rooms of the daemon below it, and the public client.
"""
