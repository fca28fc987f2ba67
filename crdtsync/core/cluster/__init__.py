"""Cluster: what all nodes must agree on to be one fleet: the members, the invites, the spaces.

There is no leader and no vote. Facts that the nodes must agree on stand in *records*: registers in the reserved space
``_cluster``, which every node has and which replicates as any other space does. If two nodes write one record at once,
there are siblings, and every node works out the same from them by a rule of the record's type. So nobody has to write
anything for all to agree.

Example: the nodes a and b are cut off from each other. On a somebody drops the space ``team``. On b somebody drops
it and makes it anew. When a and b meet, both see two values of the record ``space/team``, and
``space_records.merged`` gives each the same answer: the higher epoch wins, which is that of the space that was made
anew.

Open first: :mod:`crdtsync.core.cluster.records` (its docstring shows how to add a type of record), then
:class:`~crdtsync.core.cluster.admission.Admission` for members and :class:`~crdtsync.core.cluster.spaces.Spaces` for
spaces.

Modules:

- ``records``: the records of whatever type: get, put, merge, tell who wants to know
- ``membership``: who belongs to the cluster, decided from records alone; pure
- ``kept_members``: the members and removals that this node has ever been told of, which no record takes back
- ``admission``: this node's place in it: invite, let in, be let in, remove
- ``invites``: the invites that this node gave out, and whom they let in; kept on this node alone
- ``invite_addresses``: whether an address in an invite could lead anybody here, by its form
- ``member_list``: the rows of ``cluster members``
- ``node_names``: what nodes are called, for people
- ``node_alarms``: what the daemon tells of this node's place: let in, addresses that lead astray, certificates
- ``space_records``: what a record of a space says: epoch, and which nodes may hold it; pure
- ``spaces``: makes and closes replicas as the records say; who may hold what
- ``archives``: what was dropped, how long it stays, and its end

May import: the rooms of the core below it (see :mod:`crdtsync.core`), of which it uses ``sync``, ``peers``,
``replica``, ``storage`` and ``crdt``. Keys, signatures and TLS are the daemon's (``crdtsyncd.security``); what
follows from them is decided here.
"""
