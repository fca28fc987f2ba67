"""Operations: every operation as a plan: which requests it takes, and what their replies mean.

A *plan* is a generator that yields what it needs done (a request, a pause, a run of the caller's function) and gets
the outcome back; what it returns is the operation's result. It owns no socket, no clock and no thread, so both
clients run the same plans. The steps are in ``crdtsync.client.protocol.steps``.

Example: ``get`` yields one ``Exchange("get", {"key": …})``. The reply is a value with a version; the plan gives the
version to the session's memory and returns the value.

Open first: :class:`~crdtsync.client.operations.keys.Operations`, the plans of one session.

Modules:

- ``keys``: the reading of logs, sets and maps in parts, ``update``, ``wait``; all plans of a session together
- ``listings``: reads of keys as wholes, one or many; the deletion of all below a prefix
- ``writes``: every write as a request, alone or in a batch
- ``batch``: several writes, recorded and sent as one change
- ``conflict_answer``: what a resolver answers, as a write
- ``history``: what was written, and what became of it; why a node has of a key what it has
- ``blobs``: where the bytes of a blob come from, the requests that store and read them, and what makes a file of one
- ``checkpoints``: points of the past with a name
- ``forks``: carrying the state of keys from one space into another
- ``restore``: what differs between two points, and going back to one
- ``schemas``, ``spaces``: requests about these
- ``agent_keys``: keys of agents, made by the one who will keep them
- ``backup_file``: the file that a backup is; the command ``restore`` reads it too

May import: ``streams``, ``session``, ``protocol``, ``values``, and what the client may import of ``crdtsync``.
"""
