"""Session: what one author has read and written, and how its requests carry that.

The rule: a write supersedes what its *author* had read of the key, and not what the daemon happens to hold. So a
session remembers, for each key, the version that a read handed over, and sends it with the next write of that key
as ``seen``.

Example: the critic reads ``plan/date`` and gets "monday" with its version. Meanwhile "friday" arrives at the
daemon. The critic's write names the version of "monday", so "friday" stays beside it as a sibling.

Open first: :class:`~crdtsync.client.session.read_memory.ReadMemory`. It is bounded: of a key that fell out of it
only a hash stays, and a write to it makes a sibling rather than a blind overwrite.

Modules:

- ``read_memory``: the version of each key that was read
- ``request_context``: what a session knows, put into its requests, and what replies teach it
- ``unanswered``: writes without a reply yet, which later ones follow
- ``causes``: the reactions because of which it writes

May import: ``protocol``, ``values``, ``crdtsync.errors``.
"""
