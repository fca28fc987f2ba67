"""Sessions: what an agent did and knew, saved as a game is, to be gone on with elsewhere. Empty yet.

What will live here:

- saving a session while it runs, or when it ends
- listing, showing and loading saved sessions
- handing one over to another agent, on another host
- branching from an earlier moment, and going back to it
- a brief: what somebody must know who takes over

Its place: above the public client only. It is the top room of the library: a module here may import
``crdtsync.mcp``, ``crdtsync.adapters``, ``crdtsync.context``, ``crdtsync.client`` and ``crdtsync.errors``; never
``crdtsync.core``, ``crdtsync.wire`` or ``crdtsyncd``. import-linter holds this (the contracts ``agent-layer`` and
``library-rooms`` in ``pyproject.toml``).

Why: a saved session is ordinary state under ordinary keys. It replicates, conflicts and is protected by rights as
all other state is.
"""
