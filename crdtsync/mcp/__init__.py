"""MCP: the shared state for any client of the Model Context Protocol: coding agents and desktop programs.

Open first: ``server``. Then ``tools.reading`` for what a tool looks like.

How a call goes: a coding agent starts ``crdtsync mcp`` and calls the tool ``read`` with ``["plan/goal"]``. The SDK
checks the arguments. ``session`` finds the caller's own session with the daemon, which remembers what this caller
has read. ``answers`` makes a text in which the value stands as somebody else's words, and the same as data. The next
``write`` to that key replaces what was read; a write to a key that was not read says what it replaced.

Modules and rooms:

- ``server``: which tools are offered, and over what
- ``http``: the same on a port of loopback
- ``tools``: the tools
- ``resources``: entries, views and saved sessions that a user attaches, and the completion of their names
- ``subscriptions``: clients that are told when these change
- ``prompts``: catch up, hand over, take over, settle conflicts
- ``answers``: the shapes of answers
- ``session``: the caller as an agent of the daemon
- ``schemas``: schemas of tools in fewer tokens
- ``memory``: a drop-in for the reference memory server
- ``install``: the server in the settings of the clients on this machine

Its place: above the public client only. A module here may import ``crdtsync.sessions``, ``crdtsync.context``,
``crdtsync.coordination``, ``crdtsync.client`` and ``crdtsync.errors``; never ``crdtsync.core``, ``crdtsync.wire`` or
``crdtsyncd``.
import-linter holds both rules (the contracts ``agent-layer`` and ``library-rooms`` in ``pyproject.toml``).

It is an extra: ``pip install 'crdtsync[mcp]'``. The server is a process of its own, never in the daemon's loop.
"""
