"""Commands on the fleet: its members, its spaces, and who may do what.

Open first: ``cluster``.

Example: ``crdtsync cluster init`` on one host, ``crdtsync cluster invite`` on the same, and ``crdtsync cluster join
INVITE`` on another: two hosts are one cluster.

Modules:

- ``fleet``: ``cluster status``
- ``cluster``: ``init``, ``invite``, ``join``, ``members``, ``remove``, ``rotate-key``
- ``spaces``: ``space create``, ``list``, ``drop``
- ``agents``: ``agent create``, ``list``, ``revoke``: agents that prove their name with a key
- ``access``: ``access grant``, ``revoke``, ``list``, ``quota``

``cluster join --merge`` takes what this node holds along: that is ``crdtsyncd.cli.data.join_and_merge``.

May import: as all of :mod:`crdtsyncd.cli.commands`.
"""
