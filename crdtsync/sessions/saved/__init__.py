"""How a session is stored: a record with what is known of it, and a log of pieces for each of its files.

Open first: ``pieces``, for how one log holds what went on in several places.

Example: ``sessions/f6c3…`` says whose session it was, where, and how far it is saved;
``sessions.lines/f6c3…/main`` is the log of its lines.

Modules:

- ``header``: the record
- ``pieces``: a file as a chain of pieces, a log as a tree of them

May import: ``crdtsync.errors``.
"""
