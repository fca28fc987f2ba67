"""The ``crdtsync`` command: a thin shell over :class:`crdtsync.client.Client`.

A whole process has to answer in 100 ms, so nothing here is imported before it is needed: a command's module when
that command runs, rich when a table goes to a terminal, pycrdt when a text is edited.

Open first: ``app``, the table of the commands with the module of each, then any module in ``commands``: a command
reads its arguments, calls the client, and prints. ``main`` is the entry.

Example: ``crdtsync get plan/goal``. ``app`` imports ``commands.keys.get`` and nothing else of ``commands``;
``connect`` makes a client from options and environment; the value goes out through ``show.output``; an error
becomes one sentence on stderr and an exit status in ``errors``.

To add a command: a module in the folder of ``commands`` that fits, its row in ``app``, and its section in the page
on the command line in ``docs``.

Modules:

- ``main``: the entry of the script
- ``app``: the group and the table of its commands
- ``command``: the classes under every command: import on demand, options before and after the name
- ``params``: types of arguments: durations, values, keys, times
- ``shared_options``: options that several commands take
- ``connect``: from a command's settings to a client; reads that go page by page
- ``errors``: every failure as a sentence and an exit status

Rooms: ``commands``, one module for each command or family; ``data``, what files hold; ``show``, what people see.

May import: every room of the daemon below it (see :mod:`crdtsyncd`), and the public client; never the core's node.
"""
