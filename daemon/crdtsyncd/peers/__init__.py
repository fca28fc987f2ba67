"""Peers: the sockets between daemons: dialling, listening, joining. What is said over them is the core's.

Open first: :class:`~crdtsyncd.peers.websocket_peer.PeerConnection`, one open connection, and ``attempt`` beside it,
which dials. :class:`~crdtsyncd.peers.cluster_runtime.ClusterRuntime` decides what is dialled and listened on, from the
members that the node knows.

Example: a member gets a new address. The node tells its members' list with the next ``Ready``; ``cluster_runtime``
sees the new address; ``dial_planner`` says that this node dials that member; ``dial_member`` keeps a connection to
it, with jittered backoff.

Agents need none of this, and it takes long to import. So the daemon imports it when it serves agents already.

Modules:

- ``cluster_runtime``: listeners, what is dialled, and the chores that the node hands out
- ``websocket_peer``: one connection: dial with backoff, send in order
- ``websocket_frames``: the frames that come most, read and made in one go
- ``listen``: accepting peers, bounded in number, by TLS or in plain text on loopback
- ``dial_planner``: which members this daemon dials
- ``dial_member``: keeping a connection to one member, at whichever of its addresses answers
- ``join_protocol``: asking a member to be let in, and checking who asks
- ``join_at_start``: joining by the invite of the settings, for as long as that can succeed
- ``local_addresses``: at which addresses others can reach this daemon
- ``mdns``: finding members on the same network, where that is switched on

May import: ``loop`` and the rooms below it (see :mod:`crdtsyncd`), and ``crdtsync``.
"""
