"""Agents: the requests of the agents that are attached to this node, from a frame to its reply.

Open first: :class:`~crdtsync.core.agents.dispatcher.Dispatcher`. ``Dispatcher.received`` takes one frame. It parses
the request, charges the agent's quota, tries the fast paths, and else calls ``Dispatcher.handle``, which checks the
agent's rights and finds the handler of the operation: a write, a read, or one of the others that it knows by name. The
reply goes to ``Dispatcher.replies``; the node hands it to the daemon with the next ``Ready``, so it leaves after the
commit.

How a ``set`` goes: ``dispatcher`` -> ``write_requests`` -> a change in ``crdtsync.core.kinds.draft`` ->
``Replica.commit`` -> reply. With a write concern above 1 the reply waits in ``crdtsync.core.waiting``.

To add a request: give it a row in :mod:`crdtsync.wire.requests`, whose docstring lists what else it takes, write its
handler, and join that here, or from the node with ``Dispatcher.add_requests``.

Modules:

- ``dispatcher``: the handshake, the dispatch, replies and errors
- ``frames``: a frame to ``(id, operation, arguments)``, where what is malformed is refused; the forms of answers
- ``write_requests``: writes: done once each, refused as a whole or not at all, answered when enough nodes hold them
- ``watch_requests``: watches and resolvers: requests that go on
- ``revocation``: ends watches, resolvers and connections that may no longer run
- ``bound_keys``: keys that are deleted when the connection of their owner ends; ``cards``: what is shown until then
- ``space_requests``: make, drop and list spaces; find the replica that a request is about
- ``cluster_requests``: begin a cluster, invite, join, remove; what only the daemon can do goes out as a chore
- ``host_requests``: requests that the daemon's process answers itself: metrics, log level, backup
- ``vote_requests``: claims by quorum
- ``retry_replies``: replies to writes, kept so that a repeated write is answered and not done twice
- ``fast_paths``: the plain ``set`` and ``get`` in one go, and the ``batch`` of new keys, to the same state and the same
  bytes; what is not plain is left to the general way

May import: the rooms of the core below it (see :mod:`crdtsync.core`): ``reads``, ``waiting``, ``watch``,
``access``, ``cluster``, ``replica`` and what these stand on. Nothing here may know ``diagnostics`` or the node.
"""
