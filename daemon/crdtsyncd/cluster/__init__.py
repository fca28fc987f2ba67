"""Cluster: which daemons this one speaks to: what it listens on, whom it dials, and how it joins.

Open first: :class:`~crdtsyncd.cluster.cluster_runtime.ClusterRuntime`. It decides what is dialled and listened on, from
the members that the node knows.

Example: a member gets a new address. The node tells its members' list with the next ``Ready``; ``cluster_runtime``
sees the new address; ``dial_planner`` says that this node dials that member; ``peers.dial_member`` keeps a connection
to it, with jittered backoff.

Agents need none of this, and it takes long to import. So the daemon imports it when it serves agents already.

Modules:

- ``cluster_runtime``: listeners, what is dialled, and the chores that the node hands out
- ``dial_planner``: which members this daemon dials
- ``join_at_start``: joining by the invite of the settings, for as long as that can succeed
- ``local_addresses``: at which addresses others can reach this daemon
- ``mdns``: finding members on the same network, where that is switched on

May import: ``loop``, ``peers`` and the rooms below them (see :mod:`crdtsyncd`), and ``crdtsync``.
"""
