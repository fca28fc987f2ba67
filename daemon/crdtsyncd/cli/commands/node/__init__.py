"""Commands on one node: how it is, what is wrong with it, and its care.

Open first: ``status``.

Example: ``crdtsync doctor`` looks the host over, also while no daemon runs; ``crdtsync explain plan/goal`` says on
one screen why this node has of a key what it has.

They show what is made elsewhere: the checks of ``doctor`` in ``crdtsyncd.doctor``, the screen of ``top`` in
``crdtsyncd.top``, the page of ``ui`` in :mod:`crdtsync.ui`, the units of ``service`` in ``crdtsyncd.service``.

May import: as all of :mod:`crdtsyncd.cli.commands`.
"""
