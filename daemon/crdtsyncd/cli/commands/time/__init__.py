"""Commands on the past: to name a point of it, and to go back there.

Open first: ``checkpoints``.

Example: ``crdtsync checkpoint create before-refactor``, then, when an agent has ruined the plan, ``crdtsync checkpoint
restore before-refactor``.

The work of the commands is in ``crdtsync.client.operations``; points of the past are explained in
``crdtsync.core.reads.cuts``.

May import: as all of :mod:`crdtsyncd.cli.commands`.
"""
