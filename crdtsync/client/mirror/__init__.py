"""Mirror: copies of keys in an agent's own process, without a socket: what one holds, how it takes in what the daemon
tells, how it is read.

Example: ``with state.mirror("plan/") as plan: plan["plan/goal"]``. The look-up is one in a dict: no lock, no system
call. The daemon tells the state of every key under the prefix, then after each commit what that made of the keys
that it changed, and last ``current``. What is told waits unseen until ``current`` and is then shown in one step. So
no reader sees half of a batch, nor a state that the daemon never had.

Open first: :class:`~crdtsync.client.mirror.state.MirrorState`. One thread or task feeds it; any may read.

What is looked up is noted beside the copy. It becomes part of the session's memory of what it has read when the
session next writes that key, so a write after a look-up supersedes what the look-up showed.

Modules:

- ``state``: what to ask for, what came, what is shown, and where to go on after the connection broke
- ``held_values``: what a mirror holds of one key; never changed once it is shown
- ``view``: reading it as a mapping; what was read
- ``limits``: what a mirror may take up unless its user says otherwise

May import: ``streams``, ``session``, ``protocol``, ``values``, and what the client may import of ``crdtsync``. The
sockets are in ``aio.mirror`` and ``blocking.mirror``; the daemon's end is ``crdtsync.core.watch.state_watch``.
"""
