"""One member in words and figures, from what its process does and what it says of itself: the same for every view."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from crdtsyncd.devfleet.observer import Observer


@dataclass(frozen=True, slots=True)
class MemberState:
    """``lags`` says by peer how many changes it has not confirmed yet; None for one that is not connected."""

    name: str
    condition: str
    pid: int | None
    keys: int = 0
    changes: int = 0
    conflicts: int = 0
    lags: dict[str, int | None] | None = None
    alarms: tuple[str, ...] = ()
    fault: str = ""
    restart_at_s: float = 0.0

    @property
    def is_up(self) -> bool:
        """Whether there are figures."""
        return self.lags is not None


def state_of(observer: Observer) -> MemberState:
    """How a member is now."""
    member, status = observer.member, observer.status
    name = member.place.name
    if member.pid is None:
        return MemberState(name, "down", None, fault=member.fault, restart_at_s=member.restart_at_s)
    if status is None and member.is_ready and observer.is_silent:
        return MemberState(name, "silent", member.pid, fault="it runs, and does not answer")
    if status is None or not member.is_ready:
        return MemberState(name, "starting", member.pid, fault=member.fault)
    spaces = status["spaces"]
    return MemberState(
        name,
        str(status["node"]["state"]),
        member.pid,
        keys=sum(space["keys"] for space in spaces),
        changes=sum(space["log_changes"] for space in spaces),
        conflicts=sum(space["siblings"] for space in spaces),
        lags={
            str(peer["name"]): sum(peer["behind"].values()) if peer["state"] == "connected" else None
            for peer in status["peers"]
            if peer["name"]
        },
        alarms=tuple(str(alarm["message"]) for alarm in status["alarms"]),
    )
