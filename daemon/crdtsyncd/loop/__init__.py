"""Loop: the turns of the event loop: what came in is stepped, one commit makes it durable, then all of it leaves.

Open first: :class:`~crdtsyncd.loop.driver.Driver`. ``feed`` gives the node an event and asks for a turn; ``_take_turn``
is the turn: ``node.ready()``, ``Store.commit``, ``deliver``, ``node.advance()``. Beside it only
``replay_quarantine``, which it calls, runs the node.

Example: two agents write in the same moment. ``agent_socket`` reads both frames, ``feed`` steps both, and one turn
commits both with one flush of the disk. Then both get their replies, and each peer one message with both changes.

Failures: if the disk is full, the commit did nothing. The node then reads its memory anew, and waiting agents get the
error. If the disk itself fails, the process ends. A bug in a step is logged, the node drops what was not committed, and
the daemon goes on.

Modules:

- ``driver``: feeds the node, commits, delivers
- ``timers``: when the next turn is due, and the acknowledgements that are due between turns
- ``connections``: agents and peers by number, and what a turn lets out over them
- ``agent_socket``: the agents' unix socket: fair turns, bounded buffers
- ``agent_budget``: what each user of the host may take of it: connections, room for large requests
- ``write_gate``: makes those wait who write faster than rows come into their tables
- ``pending_joins``: connections of nodes that ask to be let in
- ``recovery``: what follows a failed step or commit
- ``replay_quarantine``: gives the core again what fits into no table
- ``housekeeping``: looks at disk, memory and usage from time to time
- ``host_services``: what agents may ask of the process: metrics, log level, backup
- ``gc_policy``: the interpreter's search for garbage, kept away from the live state
- ``process``: how full that is which the process keeps in bounds; how much memory it may still take

May import: ``peers`` (only to name the type of a connection), ``backup``, ``storage``, ``security``, ``telemetry``,
``service``, ``config``, ``wording``, and ``crdtsync``.
"""
