"""The client for threads and scripts: blocking sockets, and no thread of its own for requests.

Open first: :mod:`crdtsync.client.blocking.client`. :class:`Client` is a connection with its first session;
:class:`Session` is what one author does over it. Both may be used by many threads at once, and again after a fork.

How many threads share one socket: of the threads that wait for a reply one, the *leader*, reads the socket and
hands out what comes, the others' replies too. When it has its own reply it goes, and wakes another to lead. The
leader also reconnects, and sends again what has no answer. So a client that only asks and is answered needs no
thread.

A watch, a resolver, a mirror and an editor have a connection of their own. A mirror, an editor and a resolver with
a function also have a thread of their own.

Most is generated from ``aio``. What waits on a socket or holds a lock is another program among threads, and is written
by hand: ``connection``, ``stream``, ``editor``, ``text_lock`` and ``background``.

Modules:

- ``client``: the client and its sessions
- ``connection``: one connection for many threads: leader and followers, reconnecting, sending again
- ``stream``: one attached socket, with deadlines; the connection of what has one of its own, which comes back by itself
- ``watch``, ``mirror``, ``resolver``, ``text``, ``editor``, ``document``: the handles that the methods give
- ``blob``: what is read of a blob
- ``background``: a thread that goes on beside its owner, and what else a task does otherwise
- ``changes``: a watch that ends when all that has changed is told
- ``text_lock``: the texts of a session, and one edit of a text at a time
- ``methods``: the public methods, by subject

May import: all rooms of the client; ``aio`` too, for the editor runs an event loop in its thread.
"""
