"""``incr`` and ``reset``: keys of kind counter."""

from __future__ import annotations

from typing import Any

import click
from crdtsyncd.cli.command import Settings, state_command
from crdtsyncd.cli.connect import connect
from crdtsyncd.cli.shared_options import condition_option, conditions_option, key_argument
from crdtsyncd.cli.show import output


@state_command("incr")
@key_argument
@click.argument("n", type=int, default=1)
@conditions_option
def incr(settings: Settings, key: str, n: int, **conditions: Any) -> None:
    """Add to a counter, and print its new value.

    N is a whole number, 1 if it is left out; less than 0 counts down. An absent key counts as 0. What several hosts
    count at once all counts.

    \b
    Examples:
      crdtsync incr tokens/spent 250
      crdtsync incr slots/free -1
    """
    with connect(settings) as client:
        value = client.incr(key, n, **conditions)
        output.result(settings, str(value), {"value": value, "token": client.last_token})


@state_command("reset")
@key_argument
@condition_option
def reset(settings: Settings, key: str, **conditions: Any) -> None:
    """Set a counter back to 0, and print what it was.

    What other hosts have counted and this one does not know yet counts from 0 on. If the condition is false, nothing
    is written and the exit status is 1.

    \b
    Example:
      crdtsync reset tokens/spent
    """
    with connect(settings) as client:
        value = client.reset(key, **conditions)
        output.result(settings, str(value), {"value": value, "token": client.last_token})
