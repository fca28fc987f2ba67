"""Bytes in, values out: everything that crosses a process boundary, or stays valid on another host, has its form here.

Open first: :mod:`~crdtsync.wire.change`. A change is what one writer did in one commit. For example, an agent sets
``plan/goal``: the daemon encodes one change, and these bytes go to disk and to every other daemon unchanged. All nodes
hash them, so the encoding of a change never varies.

How the rest joins on, in the order in which bytes come in:

- ``framing`` cuts the stream of an agent's socket into frames; a websocket brings whole messages by itself
- ``codec`` decodes the msgpack in them, strictly: one exception for whatever is wrong with the bytes
- ``limits`` has the bounds that all nodes must agree on: sizes, names, keys
- ``parts`` reads numbers, bytes and short strings out of what was decoded, within bounds
- ``kinds`` is the table of the kinds of keys
- ``change`` is the change, its hash and its codec
- ``blobs`` names the parts of a blob, and the entry that stands for them
- ``stored_values`` says what agents may store, held against what came from another node
- ``peer`` is the room of what daemons say to each other
- ``yjs`` is the room of the encoding that texts bring along: the updates of Yjs
- ``requests`` is the table of all that agents can ask, which both sides must agree on
- ``features`` says which of them, and of their arguments, came later, so that an older daemon is not sent them
- ``patterns`` reads patterns of keys, such as ``plan/**``

The strings that users hold on to are here too, for they must mean the same on every host and after an upgrade:

- ``tokens``: tokens, versions and dots
- ``invites``: the line that lets a host into a cluster
- ``agent_keys``: what an agent proves its name with

No bytes from outside are trusted. A decoder checks every bound and raises an error of :mod:`crdtsync.errors`;
nothing else may come out of bad bytes. The fuzzers (``./dev fuzz``) hold all of them to that. The bytes of each format
are frozen in ``tests/golden``: if a test there fails, a format has changed.

May import: ``crdtsync.causality``, ``crdtsync.errors``, msgpack. Nothing here does I/O, asks the clock, or draws a
random number. The client imports this room, so it stays light.
"""
