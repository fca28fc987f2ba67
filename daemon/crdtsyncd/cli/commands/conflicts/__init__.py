"""Commands on keys with several values, and on what was before.

Open first: ``conflicts``, with ``resolve``.

Example: ``crdtsync conflicts plan/`` lists the keys with siblings, with the dot of each value; ``crdtsync resolve
plan/date --take DOT`` keeps one of them.

Beside the modules of commands:

- ``schema_migration``: what does not fit the schemas, and a command that makes it fit

The work of the commands is in ``crdtsync.client.operations``; conflicts are explained in ``crdtsync.core.kinds``.

May import: as all of :mod:`crdtsyncd.cli.commands`.
"""
