"""MCP: the state as tools for coding agents that speak the Model Context Protocol. Empty yet.

What will live here:

- a server that offers the state's operations as tools, over standard input and output or over HTTP
- the choice of tools: all, some, or only those that read
- putting the server into the settings of coding agents, and taking it out again

Its place: above the public client only, beside ``adapters``. A module here may import :class:`crdtsync.Client`,
:class:`crdtsync.AsyncClient`, ``crdtsync.client``, ``crdtsync.errors`` and ``crdtsync.context``; never
``crdtsync.core``, ``crdtsync.wire`` or ``crdtsyncd``. import-linter holds this (the contracts ``agent-layer`` and
``library-rooms`` in ``pyproject.toml``).

Why: a tool gives a model what an agent's own program would get, with the same rights, the same conflicts and the
same errors. A tool that could do more would be a way around the rights.

What takes a package of its own is an optional extra, imported when it is first used.
"""
