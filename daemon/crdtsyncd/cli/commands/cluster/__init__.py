"""Commands on the fleet: its members, its spaces, and who may do what.

Open first: ``cluster``.

Example: ``crdtsync cluster init`` on one host, ``crdtsync cluster invite`` on the same, and ``crdtsync cluster join
INVITE`` on another: two hosts are one cluster.

Beside the modules of commands:

- ``fleet``: what ``cluster status`` shows

``cluster join --merge`` takes what this node holds along: that is ``crdtsyncd.cli.data.join_and_merge``.

May import: as all of :mod:`crdtsyncd.cli.commands`.
"""
