"""Devfleet: a small fleet of real daemons on this machine, to try things out: ``./dev up``.

Open first: :func:`~crdtsyncd.devfleet.app.cluster`, which starts the daemons, shows them until Ctrl-C, and stops
them.

Example: ``./dev up --dir /tmp/trial`` starts three daemons on loopback, with sockets ``/tmp/trial/1.sock`` to
``3.sock``. Kill one: its process is started again after a second, and the view shows how it catches up.

Modules:

- ``app``: the command and its options
- ``layout``: the directory with data, socket, log and settings of each node, and its port
- ``process``: one daemon that is started again when it ends
- ``observer``: what a node says of itself through its agents' socket
- ``state``: one member in words and figures, the same for every view
- ``screen_view``: the live view on a terminal
- ``line_view``: the view where there is no terminal: a line for each change
- ``hints``: the commands that the views show, to be pasted
- ``demo``: three small agents that give the fleet something to show

May import: every room of the daemon; it speaks to its daemons through the public client only. Nothing imports it.
"""
