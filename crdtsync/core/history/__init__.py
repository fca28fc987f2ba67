"""History: what was written to a key, by whom, having seen what, and why it went.

The live state forgets a value as soon as another takes its place. This room remembers it, for people and programs that
ask ``history`` or ``explain``. An example: Ann sets ``goal`` to 1, Bob sets it to 2. The live state holds 2. History
holds 2 (live) and 1 (replaced by Bob's ``set``).

Where to begin:

- ``recorder``: :class:`~.recorder.HistoryRecorder`, one a replica, writes down what every operation removes;
- ``removal_reason``: :class:`~.removal_reason.RemovalReason`, why a value went, and the rules that tell a lost value
  from a replaced one;
- ``checkpoints``: points with a name, which nodes keep;
- ``checkpoint_policies``: what says how often nodes make such points by themselves;
- ``taken_away``: what a snapshot took away with nobody to confirm it, kept for a while;
- ``arrival_log``: over which peer each change came, and when; in memory alone.

Each kind differs in which earlier values live on in a new one, and in what a line shows: see the rules of the kind,
:class:`crdtsync.core.kinds.base.Rules`. The numbers of the reasons and the names of operations are in databases: they
never change.

Requests that tell of history are in ``reads``: ``key_history`` of one key, ``history_scan`` of many, ``as_of`` of a
point of the past.

This room may import ``kinds``, ``text``, ``storage``, ``crdt`` and below. The replica calls it while it applies a
change; nothing here changes the live state.
"""
