"""``yjs``: a port on which Yjs editors join the texts of this host."""

from __future__ import annotations

from pathlib import Path

import click
from crdtsyncd.cli.command import Settings, state_command
from crdtsyncd.cli.params import TEXT
from crdtsyncd.cli.shared_options import loopback_place, token_file_option, token_of


@state_command("yjs")
@click.option("--listen", metavar="[HOST:]PORT", type=TEXT, default="7479", show_default=True, help="On loopback.")
@click.option(
    "--origin", "origins", metavar="URL", type=TEXT, multiple=True, help="Let in pages from there, beside loopback's."
)
@click.option("--read-only", is_flag=True, help="Refuse every edit.")
@token_file_option
def yjs(settings: Settings, listen: str, origins: tuple[str, ...], read_only: bool, token_file: Path | None) -> None:
    """Let Yjs editors join texts, by the y-websocket protocol.

    It runs until Ctrl-C and keeps nothing. An editor's address is ws://127.0.0.1:7479/yjs/SPACE/KEY?token=TOKEN, with
    &agent=NAME if it is to write under a name of its own. It edits the Yjs text named "text".

    \b
    Example:
      crdtsync yjs --listen 7479
    """
    import asyncio

    from crdtsync import AsyncClient
    from crdtsync.client.protocol.address import agent_key
    from crdtsync.yjs.server import Server, is_origin

    host, port = loopback_place(listen, "--listen")
    for origin in origins:
        if not is_origin(origin):
            message = f"{origin!r} is no origin: a scheme and a host, as https://wiki.example, with :PORT if it has one"
            raise click.BadParameter(message, param_hint="--origin")
    token, ready = token_of(token_file, "yjs")

    async def run() -> None:
        agent = settings.agent or "editor"
        async with AsyncClient(settings.socket, settings.space, agent, agent_key=settings.agent_key) as client:
            has_key = agent_key(settings.agent_key) is not None
            await Server(client, token, origins, read_only, has_key).serve(host, port, ready)

    asyncio.run(run())
