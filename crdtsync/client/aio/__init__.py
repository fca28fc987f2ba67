"""The client for asyncio: the sockets and the tasks.

Open first: :mod:`crdtsync.client.aio.client`. :class:`AsyncClient` is a connection with its first session;
:class:`AsyncSession` is what one author does over it. A session runs plans (``crdtsync.client.protocol.steps``):
``run`` asks a plan for its next step, carries it out, and hands the outcome back.

Example: three tasks call ``get`` at once. Each puts its request on the one connection and waits for its own reply;
the requests go out one after another without waiting, and each reply wakes the task that asked.

Each watch, mirror, resolver and editor has a connection of its own, so that a slow consumer holds up nobody else, and
comes back automatically when that breaks.

Modules:

- ``client``: the client and its sessions
- ``connection``: one connection for many tasks: pipelined requests, reconnecting, sending again
- ``receive_buffer``: receiving into a buffer of one's own, which is faster than asyncio's way
- ``stream``: the connection of what has one of its own, which comes back by itself
- ``watch``, ``mirror``, ``resolver``, ``text``, ``document``: the handles that ``watch()``, ``mirror()``,
  ``resolver()``, ``text()`` and ``doc()`` give; ``text_lock``: the texts of a session, and one edit of a text at
  a time
- ``blob``: what is read of a blob
- ``background``: a task that goes on beside its owner, and what else a thread does otherwise
- ``changes``: a watch that ends when all that has changed is told
- ``editor``: the handle of an editor; ``editor_tasks``: its background tasks, which the blocking editor uses too
- ``methods``: the public methods, by subject

May import: all rooms of the client but ``blocking``.
"""
