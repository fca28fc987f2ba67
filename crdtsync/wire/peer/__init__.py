"""The messages of daemons to each other: each message one class, with its bytes both ways and its specification.

Open first: ``messages`` (:mod:`crdtsync.wire.peer.messages`). Its docstring is the protocol: frames, the life of a
connection, order, checks. ``decode_message`` there turns bytes into a message, and ``message.encode()`` turns a message
into bytes. The node decides what a message *means*: :mod:`crdtsync.core.sync.protocol` has one handler for each class.

For example, host-a sends ``Changes`` of :mod:`~crdtsync.wire.peer.changes`, and host-b answers with ``Ack`` of the same
module. The messages by subject:

- ``hello``: HELLO
- ``changes``: CHANGES, ACK, WANT, STOP
- ``transfer``: OFFER, TAKE, PART; ``snapshot`` is what the data of a PART holds
- ``probes``: PROBE, PROBED
- ``meshing``: LINKS, RELAYS, ASK, HOLDING, REACHED
- ``comparing``: DIGESTS, REMOVED, SAMPLE, SAMPLED, CHAIN
- ``values``: SPOILT, INTACT, RECALL, RECALLED
- ``gossip``: HEALTH, CARDS, RESOLVERS
- ``votes``: VOTE, VOTED

Below them: ``base`` has the class ``Message`` and the registry, ``layout`` how the fields of one stand in its array,
``fields`` what a field may hold and how it is read.
Apart: ``joining`` is another protocol, between a member and a host that wants to become one.

To add a field at the end of a message: its class, with a default, the handler, a test, and ``./dev docs --write`` for
the page ``docs/reference/peer-protocol.md``. Older versions ignore it, and what they send has the default.

To add a message: a class with the next free ``TYPE`` and a ``FEATURE``, and a handler. Fuzzers, property tests and the
page take it from the registry.

May import: the modules of :mod:`crdtsync.wire` beside it, ``crdtsync.causality`` and ``crdtsync.errors``.
"""
