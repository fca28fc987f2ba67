"""Devfleet: a small fleet of real daemons on this machine, to try things out: ``./dev up``.

Open first: :func:`~crdtsyncd.devfleet.app.cluster`, which starts the daemons, tells of them until Ctrl-C, and stops
them.

Example: ``./dev up --dir /tmp/trial`` starts three daemons on loopback, with sockets ``/tmp/trial/1.sock`` to
``3.sock``. Kill one: its process is started again after a second.

Modules:

- ``app``: the command and its options
- ``layout``: the directory with data, socket, log and settings of each node, and its port
- ``process``: one daemon that is started again when it ends
- ``view``: what is printed: what to try, and a line whenever a node is otherwise than before
- ``demo``: three small agents that give ``crdtsync top`` and ``ui`` something to show

May import: every room of the daemon; it speaks to its daemons through the public client only. Nothing imports it.
"""
