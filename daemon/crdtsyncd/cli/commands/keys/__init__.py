"""Commands on values by their key.

Open first: ``get``, the shortest with all that a command has: options, a client, output, a warning about siblings.

Example: ``crdtsync update plan -- jq '.done = true'`` reads the value, gives it to jq, and writes what jq prints,
if nothing came between; else it tries again.

May import: as all of :mod:`crdtsyncd.cli.commands`.
"""
