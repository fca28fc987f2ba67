"""Snapshots: the live state of a space at one moment, given away in parts and merged at once.

Open first: ``snapshot`` (:mod:`crdtsync.core.replica.snapshots.snapshot`), and in it ``difference``: what merging one
comes to. Messages, credit and broken connections are the business of :mod:`crdtsync.core.sync`.

Example: host-c was away for longer than the log of host-b reaches back. b takes a cut and sends it in parts; c keeps
each part (``staging``), and when all are there merges them in one commit (``merge``): what b had removed goes, and what
c wrote meanwhile stays.

Modules:

- ``snapshot``: the live state as of a cut, given away in parts; what merging one comes to
- ``staging``: the parts of a snapshot on its way in, in memory or on disk
- ``merge``: merging a whole one: exactly, at once, or not at all

May import: what :mod:`crdtsync.core.replica` may.
"""
