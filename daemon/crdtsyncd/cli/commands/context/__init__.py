"""Commands on what goes into a model's window.

Open first: ``tokens``, the shortest.

Example: ``crdtsync view plan/ findings/ --budget 2000 --query "disk full"`` prints one block of text of at most
2,000 tokens, for an agent that starts to work.

Modules:

- ``tokens``: ``tokens``: count them
- ``compress``: ``compress``: a text in fewer of them
- ``view``: ``view``: show a part of the state within a budget; named views
- ``search``: ``search``: entries by their words
- ``shared``: ``context``: a context that several agents share
- ``memory``: ``memory``: what agents have learnt
- ``mcp``: ``mcp``: the shared state for coding agents
- ``sessions``: ``session``: sessions of coding agents, taken along

What they stand on is in ``crdtsync.context``; they are the only commands that need the extra of that name.

May import: as all of :mod:`crdtsyncd.cli.commands`, ``crdtsync.context``, ``crdtsync.mcp``
and ``crdtsync.sessions``.
"""
