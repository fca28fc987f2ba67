"""Yjs editors: unmodified ones, in a page or in Node, join the texts of this host.

The problem. An editor made with Yjs (CodeMirror, Quill, Monaco) speaks the y-websocket protocol, and knows neither
tokens nor rights nor causal order. It has a replica of its own, sends every keystroke at once, and sends all again
that the other side lacks whenever it connects.

So this server keeps nothing. It is a process of its own above the public client. For each editor it hands the daemon
every update, and the editor every update that the daemon has on disk. If anything fails, it closes the connection with
a code that tells the editor whether to come again; then the two of them find out what each lacks.

Open first: ``editor``, which is one editor; then ``server`` for who may connect.

Modules:

- ``server``: the port: the token, the checks of Host and Origin, the address of a key
- ``editor``: what goes between one editor and the daemon
- ``carets``: where everybody's caret is, and the names beside them (awareness)
- ``messages``: the y-websocket protocol: bytes in, values out

May import: the public client, ``crdtsync.loopback``, ``crdtsync.context.extras`` and ``crdtsync.errors``; never
``crdtsync.core``, ``crdtsync.wire`` or ``crdtsyncd``. import-linter holds that.
"""
