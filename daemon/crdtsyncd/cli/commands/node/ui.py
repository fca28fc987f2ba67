"""``ui``: the page for people."""

from __future__ import annotations

from contextlib import suppress

import click
from crdtsyncd.cli.command import Settings, state_command
from crdtsyncd.cli.params import TEXT
from crdtsyncd.cli.shared_options import loopback_place
from crdtsyncd.cli.show import output

_FILE = click.Path(exists=True, dir_okay=False)


@state_command("ui")
@click.option("--listen", metavar="[HOST:]PORT", type=TEXT, default="7479", show_default=True, help="0: any free port.")
@click.option("--read-only", is_flag=True, help="Show all, and change nothing.")
@click.option("--open", "is_opening", is_flag=True, help="Open it in this machine's browser.")
@click.option("--certificate", metavar="FILE", type=_FILE, help="PEM: listen beyond loopback, by HTTPS.")
@click.option("--private-key", metavar="FILE", type=_FILE, help="PEM, of the certificate.")
def ui(
    settings: Settings, listen: str, read_only: bool, is_opening: bool, certificate: str | None, private_key: str | None
) -> None:
    """Show people the fleet, the state and its past in a browser.

    It prints an address that lets one browser in, once; then the next one. The page acts under the name that --agent
    gives, and may do what that name may.

    \b
    Example:
      crdtsync ui --open
    """
    import asyncio

    from crdtsync.context.extras import need

    need("starlette", "ui")
    need("uvicorn", "ui")
    from crdtsync import AsyncClient
    from crdtsync.ui.server import PageOptions, serve

    host, port = loopback_place(listen, "--listen")

    def doctor() -> list[dict[str, str]]:
        from crdtsyncd.doctor import examine

        return [finding._asdict() for finding in examine(settings.socket, None, None)]

    options = PageOptions(host, port, read_only, certificate, private_key, doctor)
    told: list[str] = []

    def ready(address: str) -> None:
        output.line(address)
        output.flush()
        if is_opening and not told:
            click.launch(address)
        told.append(address)

    async def run() -> None:
        async with AsyncClient(settings.socket, settings.space, settings.agent, agent_key=settings.agent_key) as client:
            await serve(client, options, ready)

    with suppress(KeyboardInterrupt):
        asyncio.run(run())
