"""Reads: the requests that show something and change nothing.

Open first: :mod:`crdtsync.core.reads.operations`. Its table ``READS`` has a function for each request (``get``,
``entry``, ``keys``, ``items``, ``log``, ``history`` …). Each gets a
:class:`~crdtsync.core.reads.operations.Reader`, which is one space of one node at one time with the limit of what
its agent may see, and the arguments. It returns a value that can be packed.

Live state is in memory, so most reads do not touch the disk. The past does: ``history`` of a key reads dead rows
page by page. ``history`` of a whole prefix has no index that helps, so it looks at everything, a slice in each
turn.

Example: ``get plan/goal`` finds the live entries of the key, asks ``crdtsync.core.kinds.values`` for the winner,
and returns it with a version that names what the reader was shown.

Modules:

- ``operations``: the table of reads, and the reader
- ``listing``: many keys in one answer: by prefix, as a directory, by name
- ``declared``: what reserved keys declare: schemas, checkpoints, purges
- ``blobs``: a part of a blob; how far an upload has come
- ``pages``: how much one answer shows
- ``sliced``: reads that take more than one turn: a slice a turn, bounded for each connection
- ``key_history``: the values of one key, page by page, from memory and from disk
- ``history_scan``: a read in slices: the newest writes of many keys
- ``cuts``: what a space held at a point of its past, and which point a token or a time names
- ``as_of``: another in slices: any read, as of such a point
- ``checkpoint_check``: sums up what a checkpoint will hold; reads back what it holds
- ``gone_since``: what a checkpoint holds and no snapshot of today does, for a peer that joined later

May import: the rooms of the core below it (see :mod:`crdtsync.core`), of which it uses ``watch``, ``access``,
``replica``, ``history``, ``kinds``, ``text``, ``storage`` and ``crdt``. ``agents`` calls it, after the rights
were checked.
"""
