"""``bring-back``: values that a snapshot took away, written anew."""

from __future__ import annotations

from crdtsyncd.cli.command import Settings, state_command
from crdtsyncd.cli.connect import connect
from crdtsyncd.cli.show import output


@state_command("bring-back")
def bring_back(settings: Settings) -> None:
    """Write anew what another node's state took away here.

    It is for the alarm taken_away: this node was behind and took a state in which much was missing, and no other node
    confirmed it. What went is kept for a week, while history has no more than twice its cap. A value comes back beside
    what was written to its key since. Left are texts, and what somebody has written again or what has expired. Only
    root and the user of the daemon may do this; run it again if it was cut off.

    \b
    Example:
      sudo crdtsync bring-back --space team
    """
    with connect(settings) as client:
        written, left = client.bring_back(timeout=settings.timeout)
    output.result(settings, f"{written:,} values brought back, {left:,} left", {"written": written, "left": left})
