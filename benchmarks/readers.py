"""``python -m benchmarks.readers SOCKET COUNT PREFIX watch|states|idle``: watchers that throw away what they read.

Prints ``ready`` when all have what there is, and the bytes read when its stdin ends. ``idle`` ones read nothing.
"""

from __future__ import annotations

import os
import selectors
import socket
import sys

from crdtsync.client.protocol.frames import EVENTS, MessageReader, encode_hello, encode_request

_RECEIVE_BYTES = 1 << 18


def _attach(path: str, prefix: str, how: str) -> socket.socket:
    """A watch that has been told what there is, unless it is to read nothing."""
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(path)
    arguments: dict[str, object] = {"prefix": prefix, **({"states": True} if how == "states" else {})}
    connection.sendall(encode_hello(os.urandom(16), "reader", "default") + encode_request(2, "watch", arguments))
    frames = MessageReader()
    while how != "idle":
        for _, status, content in frames.feed(connection.recv(_RECEIVE_BYTES)):
            for event in content if status == EVENTS else ():
                if event["event"] == "current" or (event["event"] == "snapshot" and event["key"] is None):
                    return connection
    return connection


def main() -> None:
    """Entry point."""
    path, count, prefix, how = sys.argv[1:]
    selector = selectors.DefaultSelector()
    connections = [_attach(path, prefix, how) for _ in range(int(count))]
    for connection in connections if how != "idle" else ():
        selector.register(connection, selectors.EVENT_READ)
    selector.register(sys.stdin, selectors.EVENT_READ)
    print("ready", flush=True)
    read_bytes = 0
    while True:
        for key, _ in selector.select():
            if not isinstance(key.fileobj, socket.socket):
                print(read_bytes, flush=True)
                return
            read_bytes += len(key.fileobj.recv(_RECEIVE_BYTES))


if __name__ == "__main__":
    main()
