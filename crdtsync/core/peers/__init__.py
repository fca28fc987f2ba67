"""Peers: which nodes there are, and how they are reached. The next room, ``sync``, has what they say over a connection.

Open first: :mod:`crdtsync.core.peers.peer_state`. A :class:`Link` is one open connection, a :class:`SpaceLink` says
how far one space has got on it, and a :class:`Peer` is another node, connected or not, with what it has on disk.
Then :class:`~crdtsync.core.peers.connections.Contacts`: connections, introductions, and which of two connections
stays.

In a small cluster every node is connected to every other one. In a large one each node dials a few, chosen by a
rule, and the rest of this room is for that: who is reached over whom, who passes on whose changes, who has what.

Modules:

- ``connections``: connections by number, nodes by id, addresses by URL; how two introduce themselves
- ``peer_state``: what is known of each other node and of each connection
- ``outbox``: what is to leave after the next commit
- ``liveness``: probes that a peer's turns must answer, so that a frozen process is noticed
- ``dial_choice``: whom a node dials: all in a small cluster, about 2 log3(n) of them in a large one
- ``topology``: what a node does with few connections, put together; ``sync`` calls this
- ``distance_vector``: which nodes are reached over others, and over which peer
- ``relay_tree``: who relays whose changes to whom
- ``ack_queries``: who has what on disk, of nodes that are not connected: asked through others
- ``resolver_gossip``: which resolvers are attached to which nodes
- ``card_gossip``: what agents of the other nodes show while they are connected
- ``voter``: promises of keys, for claims by quorum; ``ballots``: asking voters, and counting
- ``health_gossip``: version, disk and alarms of the other nodes

May import: the rooms of the core below it (see :mod:`crdtsync.core`), of which it uses ``replica`` and ``storage``.
Sockets, TLS and dialling are the daemon's (``crdtsyncd.peers``).
"""
