"""Waiting: requests that cannot be answered yet, and what they wait for.

A request waits for one of two things:

- *This node must hold more.* ``get --after TOKEN`` names a change that has not come yet; or a client that moved
  here has seen more elsewhere (session guarantees: it reads its own writes and never goes back in time).
- *Other nodes must hold it.* ``set -w 3`` is answered when three nodes, this one included, have it on disk.

Open first: :class:`~crdtsync.core.waiting.wait_queue.Waits`. Each waiting request is filed under the one change
that this node lacks next of what it waits for, so a turn costs what has come and not what waits.

Example: ``get k --after c1.…`` at node b. ``session_points`` turns the token into a vector; node b lacks change 7
of writer w; ``Dispatcher.later`` files the read under ``(w, 7)``. Change 7 arrives, the read is done and answered
in that turn. If no node that b can reach has heard of w, ``missing_changes`` says so and the wait ends early with
an error.

Modules:

- ``wait_queue``: all requests that wait, bounded for each connection
- ``session_points``: tokens to vectors and back: what a session has seen, and what is missing here
- ``missing_changes``: how many changes of which nodes are missing, and whether they can be expected to come
- ``write_concern``: on how many nodes something must be, and who has it

May import: the rooms of the core below it (see :mod:`crdtsync.core`), of which it uses ``cluster``, ``peers``,
``replica``, ``kinds`` and ``crdt``. ``agents`` calls it.
"""
