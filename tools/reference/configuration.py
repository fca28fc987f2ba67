"""The tables of settings and exit statuses, from the daemon's ``Config`` and :mod:`crdtsyncd.config.exit_status`; the
page's other words are by hand.
"""

from __future__ import annotations

import click
from crdtsyncd.config.exit_status import STATUSES
from crdtsyncd.config.model import Config
from crdtsyncd.options import cli
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from tools.reference import ROOT, page
from tools.reference.markdown import table, with_table

PAGE = ROOT / "docs/reference/configuration.md"
MIB = 1024 * 1024

COMPUTED = {
    "data_dir": "`$XDG_STATE_HOME/crdtsync` (`~/.local/state/crdtsync`)",
    "socket": (
        "`$XDG_RUNTIME_DIR/crdtsync/agent.sock`; without that variable `/run/crdtsync/agent.sock` for root, "
        "`agent.sock` in the state directory for others"
    ),
    "node_name": "the host's name, made to fit",
}
"""Defaults that depend on the machine."""


@page("docs/reference/configuration.md", is_marked=False)
def configuration() -> str:
    """The page as it should be."""
    rows = (
        (f"`{name}`", _options(name), _default(name, field), field.description or "")
        for name, field in Config.model_fields.items()
    )
    made = table(("setting", "option", "default", "meaning"), rows)
    text = with_table(PAGE.read_text(encoding="utf-8"), made)
    return with_table(text, table(("status", "meaning"), [(str(status), said) for status, said in STATUSES.items()]))


def _options(name: str) -> str:
    options = [option for option in cli.params if isinstance(option, click.Option) and option.name == name]
    return ", ".join(f"`{option.opts[0]}`" for option in options)


def _default(name: str, field: FieldInfo) -> str:
    value = field.default
    if value is PydanticUndefined:
        return COMPUTED[name]
    text = f"`{str(value).lower() if isinstance(value, bool) else value}`"
    return f"{text} ({value // MIB} MiB)" if isinstance(value, int) and value and value % MIB == 0 else text
