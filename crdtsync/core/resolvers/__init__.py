"""Resolvers: agents that settle the conflicts of keys, each asked about one conflict at a time.

Example: the agent ``editor`` on node a registers for ``plan/**``. On node b two values are written to ``plan/date``
at once. Node a sees the conflict, finds that no node is ahead of it, and shows the editor both values. The editor
answers with an ordinary write that supersedes both. If the editor dies, a asks its next resolver; if a has none
left, it tells its peers, and the next node in the order asks.

Only keys wait here. The values for a resolver are read when its turn comes, and whether a conflict is settled is read
from the state.

Open first: :class:`~crdtsync.core.resolvers.registry.Registry`, which the node calls in every turn.

Modules:

- ``registry``: the resolvers attached to this node, their requests and their time limits
- ``conflict_queue``: the conflicts of one space: whose turn, and when
- ``backoff``: how long to wait where resolvers answer nothing but answers

May import: the rooms of the core below it (see :mod:`crdtsync.core`), of which it uses ``replica``, ``peers`` (what
other nodes say of their resolvers is in ``peers.resolver_gossip``), ``kinds`` and ``crdt``. For users,
docs/how-to/resolve-conflicts.md.
"""
