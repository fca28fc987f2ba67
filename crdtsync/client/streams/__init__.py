"""Streams: what goes on until it is ended, without its socket: watches and resolvers, and what mirrors share with
them.

A watch has a connection of its own. When that breaks, the watch connects again and goes on where it was, without a
gap. The state that this takes is here; the sockets are in ``aio`` and ``blocking``, which both use it.

Example: a watch has handed out the event with token t when its daemon is killed. ``watch_state`` asks the next
daemon for what comes after t. If the log there no longer reaches back to t, the daemon starts over with the newest
states.

Open first: :class:`~crdtsync.client.streams.watch_state.WatchState`.

Modules:

- ``watch_state``: what to ask for, what came, where to go on
- ``changes_state``: what has changed since a token, asked once
- ``held_events``: events without a token wait for one, or a broken connection would tell them twice
- ``resolver_state``: the conflicts that the daemon asks about, and what answers become
- ``resume``: what any of these asks its daemon to have first, what keeps it from that, and what it outlasts

May import: ``session``, ``protocol``, ``values``, ``crdtsync.errors``.
"""
