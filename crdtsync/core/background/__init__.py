"""Background: what a node does by itself, without a request or a message.

Open first: :class:`~crdtsync.core.background.trimming.Retention`, the largest of them. All work the same way: the
node calls them in a turn, each does a bounded slice, the rows that they write go into the commit that is under way,
and each says when it wants to be called again. So nobody waits for them long, and none has a thread.

Example: a space may keep 64 MB of log, and has 64.1. In the next turns ``trimming`` drops the oldest changes in
slices, with commits that are made anyway; the *floor* of the log rises with the same commit, so that memory and
disk agree.

Modules:

- ``expiry_reaper``: entries whose time to live is over: every node hides them by its own clock, one node deletes
  them
- ``trimming``: keeps the log and the history of each space within caps of bytes and age
- ``pattern_trimming``: the same for the history of keys whose schema says how much is kept
- ``upload_sweep``: clears away uploads of blobs that nobody has finished
- ``automatic_checkpoints``: the checkpoints that policies ask for
- ``checkpoint_recall``: what a checkpoint holds, asked of others by a node that came later
- ``purging``: takes what was purged out of everything that this node stores
- ``retention_caps``: those caps
- ``text_maintenance``: texts: compacts documents that have grown, writes torn ones anew,
  unloads
- ``sleep``: puts spaces to sleep that nobody uses
- ``digest_warmup``: works out, in slices, the digests of what was loaded at a start, and conflicts. The daemon calls
  it, not the node

May import: the rooms of the core below it (see :mod:`crdtsync.core`), of which it uses ``reads``, ``watch``, ``sync``,
``replica``, ``text``, ``storage`` and ``crdt``.
"""
