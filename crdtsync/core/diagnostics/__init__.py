"""Diagnostics: what a person or a tool wants to know of a node: how it is, how full, and why a key is as it is.

Open first: :func:`~crdtsync.core.diagnostics.status.build_status`, the object that ``crdtsync status --json``
prints. :func:`~crdtsync.core.diagnostics.explain.explain` answers ``crdtsync explain KEY``: which change, from
whom, over which peer, what it waits for. Everything here is read from what the node knows anyway; reading it
changes nothing. It is given the node's parts (:class:`~crdtsync.core.node_parts.NodeParts`), not the node.

Example: ``plan/goal`` on node c is old. ``explain`` says that change 17 of node a is not here, that a is not
connected to c, that b has change 17 on disk, and that b was heard of two seconds ago.

Modules:

- ``status``: the status object, whole, or without what an agent may not see
- ``usage``: how full everything is that has a bound, and the alarm ``near_limit``
- ``counters``: what the node has done since its start: changes, conflicts
- ``explain``: the answer to ``explain``, and its handler
- ``explain_subject``: what an explanation is about: a key of a space on a node, how its changes came, who else has
  them
- ``explain_reasons``: what the key may lack, and why
- ``remote_lag``: how far nodes are that are reached only over others: asked for when somebody looks

May import: every room of the core below it (see :mod:`crdtsync.core`). It is the top room: in the core only the
node imports it. The node registers the handlers of ``status`` and ``explain`` with the dispatcher, so ``agents``
need not know this room.
"""
