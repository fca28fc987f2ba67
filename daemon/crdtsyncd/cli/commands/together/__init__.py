"""Commands for agents that work together.

Open first: ``claims``.

Example: ``crdtsync claim task/42 -- make report`` runs ``make report`` while no other agent of the fleet holds
``task/42``, and ends it if the claim is lost.

Beside the modules of commands:

- ``again``: ``--watch`` of what is a list
- ``working``: workers that run a command for each task
- ``children``: runs a command under a claim: its signals, its end

They use :mod:`crdtsync.coordination`.

May import: as all of :mod:`crdtsyncd.cli.commands`, and ``crdtsync.coordination``.
"""
