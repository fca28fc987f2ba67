"""The public methods of the asyncio client, by subject: each module is one part of a session.

Open first: ``keys``, with ``get`` and ``set``. A method builds a plan and runs it; what a plan does is in
``crdtsync.client.operations``. The methods are written once, for asyncio: ``./dev generate`` makes those of the
blocking client.

Example: ``keys`` declares the class ``AsyncKeyMethods``, and ``AsyncSession`` in ``crdtsync.client.aio.client``
inherits it, with those of all other modules.

Modules:

- ``base``: runs a plan, and sends a request that is one call
- ``keys``: read and write a key as a whole
- ``kinds``: logs, counters, sets, maps
- ``forks``: a copy of a space to try something in, and the way back
- ``history``: what was written before, and why a node has of a key what it has
- ``blobs``: bytes of any length
- ``checkpoints``: points of the past with a name
- ``schemas``: what is declared for keys by pattern
- ``spaces``: make, drop and list spaces
- ``cluster``: begin a cluster, invite, join, remove
- ``access``: agents with keys, rules, quotas
- ``daemon``: metrics, log level, backup
- ``coordination``: claims; it opens :mod:`crdtsync.coordination`, above the client
- ``handles``: open an editor, a mirror, a resolver, which go on by themselves

May import: all rooms of the client below the two shells.
"""
