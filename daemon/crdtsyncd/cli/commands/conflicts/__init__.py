"""Commands on keys with several values, and on what was before.

Open first: ``conflicts``, with ``resolve``.

Example: ``crdtsync conflicts plan/`` lists the keys with siblings, with the dot of each value; ``crdtsync resolve
plan/date --take DOT`` keeps one of them.

Modules:

- ``conflicts``: ``conflicts``, ``resolve``
- ``history``: what was written, by whom, having seen what, and what became of it
- ``bring_back``: values that a snapshot took away
- ``resolver``: a command that is asked about conflicts as they come, until Ctrl-C
- ``purge``: keys, and all that they ever held, gone on every host
- ``schema``: how the keys of a pattern are read, and what may be written; ``schema_migration``: what does not fit, and
  a command that makes it fit

What the commands do is in ``crdtsync.client.operations``; what a conflict is, in ``crdtsync.core.kinds``.

May import: as all of :mod:`crdtsyncd.cli.commands`.
"""
