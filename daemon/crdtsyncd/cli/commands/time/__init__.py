"""Commands on the past: to name a point of it, and to go back there.

Open first: ``checkpoints``.

Example: ``crdtsync checkpoint create before-refactor``, then, when an agent has ruined the plan, ``crdtsync checkpoint
restore before-refactor``.

What the commands do is in ``crdtsync.client.operations``; what a point of the past is, in
``crdtsync.core.reads.cuts``.

May import: as all of :mod:`crdtsyncd.cli.commands`.
"""
