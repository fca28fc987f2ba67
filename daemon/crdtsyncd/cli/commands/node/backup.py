"""``backup`` and ``restore``: a copy of everything that a daemon holds, and a daemon out of one."""

from __future__ import annotations

import os
from pathlib import Path

import click
from crdtsyncd.cli.command import Settings, state_command
from crdtsyncd.cli.connect import connect
from crdtsyncd.cli.show import output
from crdtsyncd.cli.show.progress import Progress
from crdtsyncd.wording import byte_size, moment

PATH = click.Path(readable=False, path_type=Path)  # who opens it says better what is wrong with it


@state_command("backup")
@click.argument("file", metavar="FILE", type=PATH)
def backup(settings: Settings, file: Path) -> None:
    """Write all that the daemon holds into a file, while it goes on.

    All spaces, as of now. The file is readable by you alone; keep it so. Only root and the daemon's own user may take
    a backup. To take up again from it: crdtsync restore.

    \b
    Example:
      sudo crdtsync backup /srv/backup/crdtsync-2026-01-31
    """
    if not file.name:
        raise click.UsageError("FILE must name a file")
    with connect(settings) as client, Progress("copied") as progress:
        about = client.backup(file, progress=progress.show_bytes)
    fields = {"file": str(file), **about, "time": moment(about["time"])}
    output.result(settings, f"wrote {file}: {byte_size(about['bytes'])} of node {about['name']}", fields)


@state_command("restore")
@click.argument("file", metavar="FILE", type=PATH)
@click.option("--data-dir", metavar="DIR", type=PATH, help="Where the daemon keeps its data.")
@click.option("--force", is_flag=True, help="Move the database that is there aside.")
@click.option("--new-node", is_flag=True, help="Become another node also on the machine of the backup.")
@click.option("--same-node", is_flag=True, help="Stay the same node also on another machine.")
def restore(
    settings: Settings, file: Path, data_dir: Path | None, force: bool, new_node: bool, same_node: bool
) -> None:
    """Make a backup the database of a daemon that is stopped.

    The directory is that of --data-dir, of the daemon's settings, or that of the service. What the other nodes
    have got since the backup was taken comes back from them when the daemon runs. On another machine than that of the
    backup it becomes another node, with another key; --same-node is for when the old machine never comes back.

    \b
    Example:
      sudo systemctl stop crdtsyncd.socket crdtsyncd.service
      sudo crdtsync restore /srv/backup/crdtsync-2026-01-31 --force
      sudo systemctl start crdtsyncd.socket
    """
    from crdtsyncd.backup.restore import restore as put_in_place

    if new_node and same_node:
        raise click.UsageError("--new-node and --same-node exclude each other")
    place = data_dir if data_dir is not None else data_directory()
    with Progress("copied") as progress:
        done = put_in_place(
            file, place, force=force, new_node=new_node, same_node=same_node, progress=progress.show_bytes
        )
    replaced = str(done.replaced) if done.replaced is not None else None
    fields = {"path": str(done.path), "replaced": replaced, "new_node": done.is_moved, "backup": done.about}
    said = [f"restored {done.path}, as of {moment(done.about['time'])}"]
    if done.is_moved:
        said.append(f"it is another node now than {done.about['name']}, of which the backup is")
    if replaced is not None:
        said.append(f"what was there before is in {replaced}")
    output.result(settings, "\n".join(said), fields)


def data_directory() -> Path:
    """Where a daemon with the settings in force keeps its data; for root without any, where the service does."""
    from crdtsyncd.config.model import load_config
    from crdtsyncd.service.install_units import SERVICE_DATA, is_service_here

    config = load_config(None, {})
    if "data_dir" not in config.model_fields_set and os.geteuid() == 0 and is_service_here():
        return SERVICE_DATA
    return config.data_dir
