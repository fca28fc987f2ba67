"""A session onto another machine: its paths as they are there, its files without harm to what is there.

Open first: ``plan``, which decides what happens to each file; then ``paths``.

Example: a session of ``/home/ann/api`` is loaded by bob. ``paths`` makes ``/home/bob/api`` of that in every line and
lists what it changed; ``plan`` finds that there is no such file yet; ``files`` writes it.

Modules:

- ``plan``: each file against what is there: new, the same, to be gone on with, ahead, or in the way
- ``paths``: paths in lines, rewritten
- ``commit``: which commit a directory is at
- ``files``: writing without overwriting; who has a file open

May import: ``crdtsync.sessions.saved``, ``crdtsync.sessions.redaction``, ``crdtsync.errors``.
"""
