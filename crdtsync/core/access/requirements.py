"""What each request needs: the one table. A request that is not in it needs all there is."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, IntEnum
from typing import NamedTuple


class Right(IntEnum):
    """What an agent may do with keys; each one includes those before it. ``HOST``: it runs this node."""

    NONE = 0
    READ = 1
    WRITE = 2
    ADMIN = 3
    HOST = 4

    @property
    def word(self) -> str:
        """As people and the protocol call it."""
        return self.name.lower()


GRANTED = (Right.READ, Right.WRITE, Right.ADMIN)
"""What a rule can say."""


class On(Enum):
    """What of its space a request needs the right on."""

    NOTHING = "nothing: what it does or shows goes by rights, or is one's own"
    KEY = "its key"
    KEY_OR_PREFIX = "its key, or some key under its prefix"
    PREFIX = "some key under its prefix; it shows those alone that may be read"
    PATTERN = "all keys of its pattern"
    PARTS = "what each part of it needs"
    SOME = "some key; it shows what concerns such keys alone"
    TOKEN = "some key of each space in its token"
    DEFAULT_SPACE = "all of the space default"
    NAMED_SPACE = "all of the space it names"
    ALL_SPACES = "all of every space"
    HOST = "this node"
    LEVEL = "this node, if it changes the level"


class Needed(NamedTuple):
    """What a request needs."""

    right: Right
    on: On


_READ_KEY = Needed(Right.READ, On.KEY)
_WRITE_KEY = Needed(Right.WRITE, On.KEY)
_OWN = Needed(Right.NONE, On.NOTHING)
_HOST = Needed(Right.HOST, On.HOST)

NEEDED: Mapping[str, Needed] = {
    # reads
    "get": _READ_KEY,
    "entry": _READ_KEY,
    "log": _READ_KEY,
    "members": _READ_KEY,
    "fields": _READ_KEY,
    "text_read": _READ_KEY,
    "text_updates": _READ_KEY,
    "scan": Needed(Right.READ, On.PREFIX),
    "history": Needed(Right.READ, On.KEY_OR_PREFIX),
    "schemas": Needed(Right.READ, On.SOME),
    "explain": _READ_KEY,
    # writes
    "set": _WRITE_KEY,
    "delete": _WRITE_KEY,
    "append": _WRITE_KEY,
    "trim": _WRITE_KEY,
    "incr": _WRITE_KEY,
    "reset": _WRITE_KEY,
    "add": _WRITE_KEY,
    "discard": _WRITE_KEY,
    "merge": _WRITE_KEY,
    "drop": _WRITE_KEY,
    "resolve": _WRITE_KEY,
    "text_apply": _WRITE_KEY,
    "text_compact": _WRITE_KEY,
    "batch": Needed(Right.WRITE, On.PARTS),
    "schema_set": Needed(Right.ADMIN, On.PATTERN),
    # following
    "watch": Needed(Right.READ, On.PREFIX),
    "unwatch": _OWN,
    "confirm": _OWN,
    "wait": Needed(Right.READ, On.TOKEN),
    "resolver": Needed(Right.WRITE, On.PATTERN),
    "resolver_done": _OWN,
    # spaces
    "space_create": Needed(Right.ADMIN, On.DEFAULT_SPACE),
    "space_drop": Needed(Right.ADMIN, On.NAMED_SPACE),
    "space_list": _OWN,
    # who may do what
    "access_grant": Needed(Right.ADMIN, On.PATTERN),
    "access_revoke": Needed(Right.ADMIN, On.PATTERN),
    "access_list": _OWN,
    "access_quota": _HOST,
    "agent_create": _HOST,
    "agent_revoke": _HOST,
    "agent_list": _OWN,
    # this node and its cluster
    "status": _OWN,
    "metrics": Needed(Right.READ, On.ALL_SPACES),
    "log_level": Needed(Right.HOST, On.LEVEL),
    "backup": _HOST,
    "cluster_init": _HOST,
    "cluster_invite": _HOST,
    "cluster_join": _HOST,
    "cluster_remove": _HOST,
    "cluster_rotate_key": _HOST,
    "cluster_members": _OWN,
}
