"""Top: a node, its peers and its busiest keys, as they go: ``crdtsync top``.

Open first: :class:`~crdtsyncd.top.sample.Frame`, one look at a node: its status, and how fast its counters have
moved since the look before. ``screen`` draws a frame. The command itself is ``crdtsyncd.cli.commands.node.top``.

Example: a status with 1,200 commits, and one second later one with 1,260: 60 commits a second. The busiest keys
come from a watch that lasts as long as somebody looks, so the daemon counts nothing for it.

Modules:

- ``sample``: one look, and its rates
- ``hot_keys``: which keys are written most, learnt from a watch in a thread
- ``screen``: a frame on a terminal; what matters least goes first where there is no room
- ``keyboard``: single keys, while something else is shown

May import: every room of the daemon below it (see :mod:`crdtsyncd`), and the public client.
"""
