"""Sync: what peers exchange until they hold the same: changes, acknowledgements, snapshots, comparison, repair.

Open first: :class:`~crdtsync.core.sync.protocol.Sync`. ``Sync.received`` takes one message of a peer and says which
changes could be applied; ``Sync.pump`` says, once a turn, what is to be sent. Messages collect in ``Sync.outbox`` and
leave after the commit.

How a change goes from host a to host c: a's ``change_feed`` sends it to every connected peer at once. Each
connection has a *cursor* in a's log, not a queue, so a slow peer costs a number. If c is connected to a, it comes
from there. If c is connected to b alone, b relays it at once, unless c has said that it gets a's changes over
another peer; what c still lacks after a second without progress b sends whatever c has said. At c ``change_intake``
decodes it, ``Replica.receive`` lets it wait at the causal gate or applies it, c commits it, and ``acks`` tells the
sender, which gives the sender credit to go on.

A peer that is too far behind is offered a snapshot instead of changes. Peers that say they hold the same compare
what that comes to, and mend a difference.

Modules:

- ``protocol``: what each message means; which spaces sync on which connection; what a turn sends
- ``change_intake``: takes in the changes that a peer sends
- ``change_feed``: sends each peer the changes that it lacks, in causal order, within its credit; relays
- ``acks``: what each side has on disk, credit, asking again for what was dropped
- ``snapshot_server``: when a snapshot is offered, and giving it away part by part
- ``snapshot_client``: whom to ask, taking in part by part, resuming, giving up, merging at the end
- ``snapshot_receipt``: the one that is being taken, and its check once all parts have come
- ``snapshot_check``: asking others before a snapshot takes much away
- ``fork_search``: forks that stand between this node and a peer, and finding where two chains part
- ``divergence_check``: comparing whole replicas at a common cut
- ``value_repair``: values that a disk has spoilt, fetched from a peer
- ``repair``: mending a replica that differs
- ``text_repair``: texts that Yjs cannot unite, written anew

May import: the rooms of the core below it (see :mod:`crdtsync.core`): ``peers``, ``replica``, ``text``,
``storage``, ``crdt``. The messages themselves are ``crdtsync.wire.peer``.
"""
