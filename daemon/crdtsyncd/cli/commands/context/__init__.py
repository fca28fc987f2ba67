"""Commands on what goes into a model's window.

Open first: ``tokens``, the shortest.

Example: ``crdtsync view plan/ findings/ --budget 2000 --query "disk full"`` prints one block of text of at most
2,000 tokens, for an agent that starts to work.

They use ``crdtsync.context``, and are the only commands that need the extra of that name.

May import: as all of :mod:`crdtsyncd.cli.commands`, ``crdtsync.context``, ``crdtsync.mcp``
and ``crdtsync.sessions``.
"""
