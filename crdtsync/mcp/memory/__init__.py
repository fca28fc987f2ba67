"""A drop-in for the reference memory server: its nine tools, over shared state.

The reference server reads its whole file, changes it and writes it back: of 20 entities that two processes create at
once, one process's are lost. Here an entity, each of its observations and each relation is a thing of its own in the
shared state, so that what several agents on several hosts add at the same time all stays.

Open first: ``graph``.

Modules:

- ``graph``: entities, observations and relations as keys
- ``tools``: the nine tools, with the names, arguments and results of the reference server
- ``import_file``: what its file holds, brought over

May import: ``crdtsync.mcp.answers``, ``crdtsync.mcp.session``, ``crdtsync.mcp.tools.table``, the public client, and the
package ``mcp``.
"""
