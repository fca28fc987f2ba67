"""Commands on what several authors build together: a module for each kind.

Open first: ``counters``, the shortest.

Example: ``crdtsync append findings '"the cache is cold"'`` prints the new length of the log, and ``crdtsync log
findings -f`` prints each element that comes, until Ctrl-C.

Registers have their commands in ``crdtsyncd.cli.commands.keys``. The kinds are explained in ``crdtsync.core.kinds``.

May import: as all of :mod:`crdtsyncd.cli.commands`, and ``crdtsync.yjs``.
"""
