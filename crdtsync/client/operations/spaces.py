"""Spaces: what the client says of them, made of replies. Imported when first used."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from crdtsync.client.values.times import moment


@dataclass(frozen=True, slots=True)
class Space:
    """A space of the cluster.

    ``nodes``: the nodes that may hold it, by id, with the name where it is known; None: all. ``here``: whether the node
    that was asked holds it. ``token``: waiting for it on another node makes sure that the space is there too; only of
    one that was just made.
    """

    name: str
    epoch: int
    nodes: dict[str, str | None] | None
    here: bool
    time: datetime | None
    agent: str | None
    created: bool = False
    token: str | None = None


@dataclass(frozen=True, slots=True)
class Archive:
    """The archive of a dropped space on a node, until ``until``.

    Read it as the space of this ``name``. ``unseen`` counts the changes in it that the node which dropped the space had
    not seen. The figures are None for who may not read all of it.
    """

    name: str
    entries: int | None
    size_bytes: int | None
    unseen: int | None
    time: datetime
    until: datetime


@dataclass(frozen=True, slots=True)
class Dropped:
    """The result of dropping a space: the archive of this node, until when, and the token of the drop."""

    name: str
    epoch: int
    archive: str | None
    until: datetime | None
    token: str


def dropped(reply: Any) -> Dropped:
    """The result in the reply to a drop."""
    until = None if reply["until"] is None else moment(reply["until"])
    return Dropped(reply["name"], reply["epoch"], reply["archive"], until, reply["token"])


def spaces(reply: Any) -> list[Space]:
    """All of the cluster, as a list of spaces tells them."""
    return [space(plain) for plain in reply["spaces"]]


def archives(reply: Any) -> list[Archive]:
    """All of this node, as a list of spaces tells them."""
    return [
        Archive(
            plain["name"],
            plain["entries"],
            plain["bytes"],
            plain["unseen"],
            moment(plain["time"]),
            moment(plain["until"]),
        )
        for plain in reply["archives"]
    ]


def space(plain: Any) -> Space:
    """One, as the daemon describes it."""
    nodes = plain["nodes"]
    return Space(
        plain["name"],
        plain["epoch"],
        None if nodes is None else {node["id"]: node["name"] for node in nodes},
        plain["here"],
        None if plain["time"] is None else moment(plain["time"]),
        plain["agent"],
        plain.get("created", False),
        plain.get("token"),
    )
