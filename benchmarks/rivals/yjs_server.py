"""A pycrdt-websocket server in memory, run by the Python of the rivals; its port is the only argument."""

import asyncio
import sys

from hypercorn import Config
from hypercorn.asyncio import serve
from pycrdt.websocket import ASGIServer, WebsocketServer


async def main() -> None:
    """Serve until killed."""
    server = WebsocketServer(auto_clean_rooms=False)
    config = Config()
    config.bind = [f"127.0.0.1:{sys.argv[1]}"]
    config.loglevel = "ERROR"
    async with server:
        await serve(ASGIServer(server), config, mode="asgi")


asyncio.run(main())
