"""The crdtsync daemon: the thin shell of sockets, disk and clock around :mod:`crdtsync.core`.

The core decides; the daemon carries out. One process, one event loop, one thread, and a second thread for a moment
while the write-ahead log is checkpointed or a backup is copied.

Open first: :class:`~crdtsyncd.loop.driver.Driver`, the only caller of the core's node, and in it ``feed`` and
``_take_turn``: step what came in, commit, let it out. Then :mod:`crdtsyncd.storage.database` for what a commit is.

How it starts: ``main`` has the settings read in another process; ``serve`` opens the
database, makes the driver, listens on the agents' socket, and only then imports and starts what speaks to peers.

Modules:

- ``scripts``: the two programs begin here, and say what is not installed
- ``main``: the command ``crdtsyncd``: settings, exit status; it imports little
- ``options``: what may stand on its command line
- ``serve``: what it starts: database, driver, listeners, signals
- ``wording``: figures in words, for people
- ``terminal``: the one way by which something comes before a person

Rooms, top to bottom; each may import the rooms below it and never one above (``pyproject.toml`` holds the order):

- ``devfleet``: ``./dev up``: a few daemons on this machine
- ``cli``: the command ``crdtsync``
- ``top``, ``doctor``: what these two commands look at and show
- (``main``, then ``options``, then ``serve``)
- ``cluster``: what is listened on, which members are dialled, joining
- ``loop``: the event loop's turns: the driver, and the agents' socket
- ``peers``: websockets to other daemons: dial, listen, join
- ``backup``: backup and restore
- ``storage``: SQLite, and the journal before it
- ``security``: keys, TLS, who is trusted
- ``telemetry``: logs and metrics
- ``service``: systemd
- ``config``: settings and exit statuses

Where to look for what: a write is durable when ``Store.commit`` in ``storage.database`` returns; a full disk is
noticed by ``storage.disk_guard``, asked by ``loop.housekeeping``, and answered in the core; a failed step or commit in
``loop.recovery``.

May import: ``crdtsync``. Only ``loop.driver`` may import ``crdtsync.core.node``, with ``recovery`` and
``replay_quarantine`` beside it, which it calls.
"""
