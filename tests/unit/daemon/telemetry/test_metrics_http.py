"""The address at which Prometheus asks: taken by another program, and what else than GET is answered there."""

from __future__ import annotations

import asyncio
import socket

import pytest
from crdtsyncd.telemetry import metrics_http
from crdtsyncd.telemetry.metrics_http import MetricsServer

HOSTS_OF_OTHERS = (
    "evil.example", "evil@localhost", "evil:x@localhost:80", "localhost.evil.example", "localhost@", "@localhost", "",
    "localhost/", "localhost, evil.example", "127.0.0.1.evil.example", "localhost#.evil", "localhost:80:80",
)  # fmt: skip


async def ask(port: int, line: str, host: str = "localhost") -> str:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"{line} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
    answer = (await reader.read()).decode()
    writer.close()
    return answer


async def test_a_port_that_is_taken_is_told_and_tried_again(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(metrics_http, "RETRY_S", 0.01)
    told: list[str] = []
    has_it = asyncio.Event()

    def tell(reason: str) -> None:
        told.append(reason)
        if not reason:
            has_it.set()

    server = MetricsServer(lambda: "figures\n", tell)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        await server.start(f"127.0.0.1:{port}")
        assert told == [
            f"metrics_listen = '127.0.0.1:{port}' cannot be had, and is tried again: another program has it"
        ]
    async with asyncio.timeout(60):
        await has_it.wait()
    assert (await ask(port, "GET /metrics")).endswith("\r\n\r\nfigures\n")
    posted = await ask(port, "POST /metrics")
    assert posted.startswith("HTTP/1.1 405 Method Not Allowed\r\n")
    assert "\r\nAllow: GET, HEAD\r\n" in posted
    server.close()


@pytest.mark.parametrize("host", HOSTS_OF_OTHERS)
async def test_a_web_page_that_had_its_name_point_here_gets_nothing(host: str):
    server = MetricsServer(lambda: "figures\n", lambda _reason: None)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    await server.start(f"127.0.0.1:{port}")
    assert (await ask(port, "GET /metrics", host)).startswith("HTTP/1.1 403 ")
    for own in ("localhost", "127.0.0.1", f"LOCALHOST:{port}", f"[::1]:{port}"):
        assert (await ask(port, "GET /metrics", own)).endswith("figures\n")
    server.close()


async def test_what_is_closed_while_it_tries_does_not_listen_later(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(metrics_http, "RETRY_S", 0.0)
    server = MetricsServer(lambda: "", lambda _reason: None)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        await server.start(f"127.0.0.1:{port}")
        server.close()
    for _ in range(10):
        await asyncio.sleep(0)
    with pytest.raises(ConnectionRefusedError):
        await ask(port, "GET /metrics")
