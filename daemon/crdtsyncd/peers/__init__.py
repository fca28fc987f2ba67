"""Peers: the sockets between daemons: dialling, listening, joining. Their messages are the core's.

Open first: :class:`~crdtsyncd.peers.websocket_peer.PeerConnection`, one open connection, and ``attempt`` beside it,
which dials. It hands messages to a ``PeerSink``, which is the driver.

Modules:

- ``websocket_peer``: one connection: dial with backoff, send in order
- ``websocket_frames``: the frames that come most, read and made in one go
- ``listen``: accepting peers, bounded in number, by TLS or in plain text on loopback
- ``dial_member``: keeping a connection to one member, at whichever of its addresses answers
- ``join_protocol``: asking a member to be let in, and checking who asks

May import: ``security``, ``telemetry``, ``service``, ``config``, ``wording``, and ``crdtsync``. While a daemon runs,
only ``cluster`` imports it, so that one that serves agents alone does not wait for the library.
"""
