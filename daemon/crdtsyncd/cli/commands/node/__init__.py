"""Commands on one node: how it is, what is wrong with it, and its care.

Open first: ``status``.

Example: ``crdtsync doctor`` looks the host over, also while no daemon runs; ``crdtsync explain plan/goal`` says on
one screen why this node has of a key what it has.

Modules:

- ``status``: ``status``, ``peers``
- ``explain``: why a node has of a key what it has, or lacks it
- ``doctor``: what is wrong with this host; the checks are in ``crdtsyncd.doctor``
- ``top``: what goes on, live; the frame and the screen are in ``crdtsyncd.top``
- ``ui``: a page for people; the page is in :mod:`crdtsync.ui`
- ``metrics``: ``metrics``, ``log-level``
- ``backup``: ``backup``, ``restore``
- ``service``: ``service install``, ``uninstall``, ``status``; the units are in ``crdtsyncd.service``
- ``completion``: what a shell completes words with

May import: as all of :mod:`crdtsyncd.cli.commands`.
"""
