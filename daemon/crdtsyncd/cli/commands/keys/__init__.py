"""Commands on values by their key.

Open first: ``get``, the shortest with all that a command has: options, a client, output, a warning about siblings.

Example: ``crdtsync update plan -- jq '.done = true'`` reads the value, gives it to jq, and writes what jq prints,
if nothing came between; else it tries again.

Modules:

- ``basics``: ``set``, ``touch``, ``del``, ``ls``
- ``get``: the value of a key, or all that is known of it
- ``update``: a value through a command and back
- ``edit``: a value in the user's editor; the user's text is never lost
- ``blob``: bytes of any length, in and out of files
- ``export``, ``import_``: keys as NDJSON, out and in
- ``import_from``: what people have elsewhere
- ``batch``: many operations as one change
- ``wait``: until a write has arrived; what is here now
- ``watch``: changes as they happen

May import: as all of :mod:`crdtsyncd.cli.commands`.
"""
