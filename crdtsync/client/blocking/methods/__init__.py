"""The public methods of the blocking client, by subject: each module is one part of a session.

Open first: ``keys``, with ``get`` and ``set``. A method builds a plan and runs it; what a plan does is in
``crdtsync.client.operations``. The docstrings here are the reference for both clients; the twin of each method is
in ``crdtsync.client.aio.methods``. To add a method: the plan, then the method in both folders.

Example: ``keys`` declares the class ``PlainMethods``, and ``Session`` in ``crdtsync.client.blocking.client``
inherits it, with those of all other modules.

Modules:

- ``keys``: read and write a key as a whole
- ``kinds``: logs, counters, sets, maps
- ``history``: what was written before
- ``explain``: why a node has of a key what it has
- ``schemas``: what is declared for keys by pattern
- ``spaces``: make, drop and list spaces
- ``cluster``: begin a cluster, invite, join, remove
- ``access``: agents with keys, rules, quotas
- ``daemon``: metrics, log level, backup
- ``editors``, ``mirrors``, ``resolvers``: open an editor, a mirror, a resolver

May import: all rooms of the client.
"""
