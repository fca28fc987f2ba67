"""Watch: agents that are told what becomes of keys.

There are two kinds. A *change watch* tells every change under a prefix, in causal order: for programs that act on
what happens. A *state watch* tells what each commit made of the keys that it changed: for mirrors, which keep
copies of keys.

A watch never has a queue. While its consumer keeps up it is told each commit as it happens. When the consumer's
socket is full, the watch keeps a set of keys, and tells their newest state once the consumer reads on. A consumer
that comes back with a token is fed from the log.

Open first: :class:`~crdtsync.core.watch.watches.Watches`. The node calls ``notify`` with what each commit applied, and
``advance`` to go on with those who are behind. Then ``scheduler``: the states of a watcher, the same for both kinds.

Example: ann watches ``plan/`` and bob sets ``plan/goal``. ``prefix_index`` finds ann's watch by one look-up for
each length that prefixes have; ``events`` encodes the event once; the same bytes go to everybody who watches that
key.

Modules:

- ``watches``: all watches of a node, by connection
- ``scheduler``: when a watcher is told what: from the commit, from the log, or the newest state of keys
- ``prefix_index``: watchers by their prefix, found without looking at each
- ``change_watch``: watches of changes: what a watcher is told in each state
- ``events``: what a change looks like to watchers
- ``event_size``: as many values as fit into a frame
- ``state_watch``: watches of states, likewise
- ``partial_updates``: what a commit did to a key with many parts, told as the parts alone
- ``policy_changes``: what reads give otherwise than before, since a schema has changed

May import: the rooms of the core below it (see :mod:`crdtsync.core`), of which it uses ``replica``, ``history``,
``kinds``, ``text``, ``storage`` and ``crdt``. For users, docs/how-to/follow-changes.md.
"""
