"""An HTTP proxy on loopback that shows a token, for clients that cannot."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

_OWN = {"connection", "content-length", "transfer-encoding"}
_TIMEOUT_S = 60


@contextmanager
def showing(token: str, address: str) -> Iterator[str]:
    """The address of a proxy to ``address``. A name other than that of the proxy itself is passed on as it is."""
    target = urlsplit(address)
    assert target.hostname is not None

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            asked = http.client.HTTPConnection(target.hostname or "", target.port, timeout=_TIMEOUT_S)
            headers = {name.lower(): value for name, value in self.headers.items()} | {
                "authorization": f"Bearer {token}"
            }
            if headers["host"].partition(":")[0] in ("127.0.0.1", "localhost"):
                headers["host"] = target.netloc
            asked.request(self.command, self.path, body, headers)
            answer = asked.getresponse()
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in _OWN:
                    self.send_header(name, value)
            self.send_header("connection", "close")
            self.end_headers()
            self.close_connection = True
            try:
                while part := answer.read1(65_536):
                    self.wfile.write(part)
            except OSError:
                pass  # either side has had enough of it
            finally:
                asked.close()

        do_GET = do_DELETE = do_POST  # noqa: N815

        def log_message(self, *_: object) -> None:
            """Nobody reads it."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.block_on_close = False
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://localhost:{server.server_port}{target.path}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(60)
