"""``doctor``: what is wrong with this host, and what to do about it; also while no daemon runs."""

from __future__ import annotations

import shutil
import sys
import textwrap
from typing import TYPE_CHECKING

import click
from crdtsyncd.cli.command import Settings, state_command
from crdtsyncd.cli.show import output

if TYPE_CHECKING:
    from crdtsyncd.doctor import Finding

PROBLEMS_FOUND = 1
NARROW_CHARS = 60
"""Below this width there is no room for a column of its own for what comes first."""
_MARKS = {"ok": "ok     ", "warning": "warning", "problem": "PROBLEM"}


@state_command("doctor")
@click.option("--config", "config_file", metavar="FILE", type=click.Path(), help="The daemon's settings.")
@click.option("--data-dir", metavar="DIR", type=click.Path(), help="The daemon's data, if not where the settings say.")
def doctor(settings: Settings, config_file: str | None, data_dir: str | None) -> None:
    """Find what is wrong on this host, and what to do about it.

    Looks at settings, rights, disk, clock, ports, peers and versions. Works without a daemon, too. Exit status 1 if
    there is a problem; warnings alone leave it 0. With --json an object a line: {"check", "state":
    "ok|warning|problem", "message", "remedy"}.

    \b
    Example:
      sudo crdtsync doctor
    """
    from crdtsyncd.doctor import examine

    count = 0
    for finding in examine(settings.socket, config_file, data_dir):
        count += finding.state == "problem"
        _show(settings, finding)
        output.flush()
    if count:
        click.get_current_context().exit(PROBLEMS_FOUND)


def _show(settings: Settings, finding: Finding) -> None:
    if settings.json:
        output.line(output.record(finding._asdict()))
        return
    for text in fitted(finding, shutil.get_terminal_size().columns if sys.stdout.isatty() else None):
        output.line(text)


def fitted(finding: Finding, width: int | None) -> list[str]:
    """The lines to show: as long as they are, or folded between words; paths and addresses stay whole, to be copied."""
    mark = f"{_MARKS[finding.state]}  "
    lines = [(mark, f"{finding.check}: {finding.message}")]
    if finding.remedy:
        lines.append((" " * len(mark) + "→ ", finding.remedy))
    if width is None:
        return ["".join(line) for line in lines]
    folded: list[str] = []
    for first, text in lines:
        is_narrow = width < NARROW_CHARS
        wrapper = textwrap.TextWrapper(
            width,
            initial_indent=first.lstrip() if is_narrow else first,
            subsequent_indent="  " if is_narrow else " " * len(first),
            break_long_words=False,
            break_on_hyphens=False,
        )
        folded += wrapper.wrap(text)
    return folded
