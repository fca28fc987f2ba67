"""The observed-remove map of one space: its live entries, and the order in which changes may be applied.

Every write adds an entry under a new *dot* (writer, number of the change, number of the operation) and names the dots
that it takes the place of. Ann writes ``k`` as 1.1.0; Bob, who read that, writes it as 2.1.0 and names 1.1.0; Carol,
who read neither, writes it as 3.1.0 and names nothing. In whatever order a replica gets the three, it ends up with
2.1.0 and 3.1.0: Bob's value and Carol's, which are siblings. Nothing is left of 1.1.0, not even a tombstone.

Where to begin:

- ``entry``: :class:`~.entry.Entry`, one live value; ``key_entries``: those of one key; ``entries``:
  :class:`~.entries.Entries`, all of a space, with their digest;
- ``causal_gate``: changes that came before what they depend on wait here;
- ``read_context``: which of a key's entries the author of a write had seen (the causal context of dotted version
  vectors);
- ``read_policies``: which of several siblings a reader is shown first; ``schemas``: which policy applies to which keys;
- ``expiry``: which entries are due to be hidden; ``sliding``: which live on when they are read; ``timer_heap``: names
  by the time when they are due;
- ``uploads``: whose the parts of blobs are, and when they go; ``json_schema``: whether a value is as a JSON Schema
  says, in bounded time.

Nothing here knows the kinds of keys, a disk, a peer or an agent. This room may import ``identity``, ``alarms``,
``crdtsync.causality`` and ``crdtsync.wire``.
"""
