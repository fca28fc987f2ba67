"""The core: one node of a fleet as a state machine, without a socket, a file, a clock or a random number.

The problem. A daemon holds many spaces, talks to many peers and many agents, and may be killed at any moment. After the
kill, everything that it has told an agent or a peer must still be true. If sockets, disk and rules were mixed, nobody
could see that this holds, and no test could try every order of events. Therefore the rules are here, and the daemon
only carries out what they say. The shape is that of etcd's raft library.

The pump. The driver of a node (in the daemon, :mod:`crdtsyncd.loop.driver`) repeats four steps:

1. ``node.step(event, now)`` for everything that has happened: a frame of an agent, a message of a peer, a
   connection that came or went, a tick of the clock. The node changes its memory and nothing else.
2. ``ready = node.ready()`` asks what follows. :class:`~crdtsync.core.interface.Ready` lists what is to be done.
3. Persist, then send. Write all of ``ready.persist`` in one durable commit. Only then send ``ready.sends`` to peers
   and ``ready.replies`` to agents, and close what ``ready`` says is to be closed.
4. ``node.advance()`` tells the node that the commit is on disk.

The duties of the one who drives a node, in order, and why:

- One caller, one thread. A node takes no locks.
- Step with the time. ``now`` is a wall clock in ms (times that people see, times to live) and a monotonic clock in
  seconds (timers). Both come from outside, so a test can play a week in a second.
- Commit before anything leaves. An agent that was answered will not write again; a peer that got a change will not
  ask for it again, and it counts change numbers. If the host lost its disk's newest state after that, an
  acknowledged write would be gone, or a number would be used twice for two changes. This order is the whole safety
  argument.
- If the commit fails and nothing of it is on disk, call ``node.persist_failed(ready, error)`` instead of
  ``advance``. The node reads its memory anew from storage and returns another ``Ready``, in which the waiting
  agents get the error.
- If the disk itself fails, end the process. After a failed fsync nobody knows what the disk holds.
- If ``step`` or ``ready`` raises, call ``node.step_failed(event, why)``: what was half done is dropped in the same
  way.
- Come back in time. When nothing happens, step a ``Tick`` at the latest at ``node.deadline_s()``.
- Skip the turn for reads. While ``node.is_calm``, ``node.take_replies()`` may leave at once: they show only what is
  on disk already.

Two nodes, and a write on one that arrives at the other (a test runs this; ``host`` makes a node and its storage)::

    a, b = host("a"), host("b")
    a.node.step(PeerOpened(1, "ws://b", dialled=True), now)     # one connection; each side numbers it for itself
    b.node.step(PeerOpened(1, "ws://a", dialled=False), now)
    a.node.step(AgentOpened(2, uid=1000, pid=4242), now)
    a.node.step(AgentFrame(2, pack([1, "hello", {"protocol": 1, "client": bytes(16), "agent": "ann"}])), now)
    a.node.step(AgentFrame(2, pack([2, "set", {"n": 1, "key": "plan", "value": pack("ship")}])), now)

    def turn(here, other):
        ready = here.node.ready()
        here.storage.commit(ready.persist)                      # persist ...
        for _conn, message in ready.sends:                      # ... then send
            other.node.step(PeerFrame(1, message), now)
        here.node.advance()

    for _ in range(3):                                          # hello, hello and changes, acknowledgement
        turn(a, b)
        turn(b, a)
    assert b.node.replicas["default"].vector == a.node.replicas["default"].vector

Modules here:

- ``node``: :class:`~crdtsync.core.node.Node`. Open it first: ``step`` and its table of handlers, ``ready``,
  ``advance``
- ``interface``: the events that go in, and ``Ready``
- ``node_parts``: all parts of a node put together, and the spaces in memory
- ``node_context``: :class:`~crdtsync.core.node_context.NodeContext`, what the parts of a node share
- ``agenda``: when each part of a node is due; a turn runs what is
- ``heal_forks``: forks that this node has to heal, some of it each turn
- ``replay``: changes that were acknowledged and fit into no table, taken in again as if from a peer
- ``identity``: who this node is
- ``alarms``, ``alarm_catalogue``: the alarms that are raised; all that there are, with what they mean

Rooms, top to bottom; each may import the rooms below it and never one above (``pyproject.toml`` holds the order):

- ``diagnostics``: status, usage, why a key is as it is
- ``background``: what a node does by itself: expiry, trimming, texts
- ``agents``: the requests of agents, from the frame to the reply
- ``reads``: read requests
- ``waiting``: requests that wait; write concerns; session guarantees
- ``resolvers``: agents that settle conflicts
- ``watch``: watches and mirrors
- ``access``: agents' identities, rights, quotas
- ``cluster``: members, invites, which spaces there are
- ``sync``: what peers exchange: changes, acknowledgements, snapshots, comparison, repair
- ``peers``: who is there, and over whom a node is reached
- ``replica``: one space: its changes, its write operations, its snapshots
- ``history``: what became of values, and who did it
- ``kinds``: register, counter, set, map, log, text; a change in the making
- (``space``: one space as it stands in memory, which the rooms above read)
- ``text``: texts as Yjs documents
- ``storage``: what the core asks of a disk, and what the next commit writes
- ``crdt``: the observed-remove map of one space

Where to look for what: a write is made durable after ``replica.replica`` has put its rows into
``storage.write_batch``; siblings are ranked in ``kinds.values``, by a policy of ``crdt.read_policies`` if a schema
names one; a change goes out in ``sync.change_feed`` and comes in through ``sync.protocol`` to ``replica.replica``; a
full disk is ``DiskSpace``, and ``Node.persist_failed`` if a commit found it out.

May import: ``crdtsync.wire``, ``crdtsync.causality``, ``crdtsync.differences``, ``crdtsync.errors``, and of the
standard library nothing that does I/O, tells the time or draws random numbers.
"""
