"""Every request of an agent, a row each: what the daemon, the clients and the page of the protocol have to agree on.

Example: an agent has read the plan on host-a, and its client goes on at host-b, which is behind. So the client sends
``need`` with the next ``get``, and host-b waits for what it lacks before it answers. ``explain`` does not take
``need``: it is to say *why* the plan is not there. If the client sent it all the same, host-b would answer at once, and
the client, which takes an answer for proof that what it needed is there, would read an older plan from then on. Which
requests take ``need`` must therefore be the same on both sides, so it stands here, once.

The node checks itself against this table when it starts (:class:`crdtsync.core.agents.dispatcher.Dispatcher`), the
guard asks it what a request needs, the clients ask it which requests take ``need``, the fuzzer sends all that change
nothing but keys, and the tables of ``docs/reference/agent-protocol.md`` are made from it. A request that is not in it
needs all rights that there are.

A new request takes a row here, with the feature that names it (``since``), its handler in the core, a method in
``crdtsync/client/aio/methods``, a command with its line in ``crdtsyncd.cli.app``, what it answers in
``docs/reference/agent-protocol.md``, a row in ``tests/requests.py``, and a test.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, IntEnum

from crdtsync.named_tuple import NamedTuple


class Right(IntEnum):
    """Rights of an agent on keys; each one includes those before it. ``HOST``: it runs this node."""

    NONE = 0
    READ = 1
    WRITE = 2
    ADMIN = 3
    HOST = 4

    @property
    def word(self) -> str:
        """As people and the protocol call it."""
        return self.name.lower()


class On(Enum):
    """The part of its space that a request needs the right on."""

    NOTHING = "nothing: what it does or shows goes by rights, or is one's own"
    KEY = "its key"
    KEYS = "each of its keys"
    KEY_OR_PREFIX = "its key, or some key under its prefix"
    PREFIX = "some key under its prefix; it shows those alone that may be read"
    PATTERN = "all keys of its pattern"
    PARTS = "what each part of it needs"
    SOME = "some key; it shows what concerns such keys alone"
    MADE = "some key; to delete what another has made, all of its space"
    SPACE = "all of its space"
    TOKEN = "some key of each space in its token"
    DEFAULT_SPACE = "all of the space default"
    NAMED_SPACE = "all of the space it names"
    ALL_SPACES = "all of every space"
    HOST = "this node"
    LEVEL = "this node, if it changes the level"


class Form(Enum):
    """The way that a request takes."""

    READ = "it shows what a space holds, as of one moment"
    WRITE = "it is one change of a space, or a part of one in a batch"
    STANDING = "it goes on until it is ended, or is about one that does"
    NODE = "the node answers it: of itself, its cluster, its spaces, and those who may use them"


class Request(NamedTuple):
    """A row: what the request is, what its sender needs, its own arguments, and whether it takes ``need``.

    ``since``: the feature with which a daemon says that it knows the request; empty: version 0.1.0 did already.
    """

    form: Form
    right: Right
    on: On
    arguments: frozenset[str]
    takes_need: bool = True
    since: str = ""


ARGUMENTS = frozenset({"agent", "need", "space", "timeout"})
"""Those that every request takes; ``need`` but for a few."""
READ_ARGUMENTS = frozenset({"after"})
"""Those that every read takes beside."""
WRITE_ARGUMENTS = frozenset({"again", "if_absent", "if_version", "n", "schema_version", "w"})
"""Those that every write takes beside; ``schema_set`` has no conditions."""


def _request(
    form: Form, right: Right, on: On, arguments: str = "", *, takes_need: bool = True, since: str = ""
) -> Request:
    return Request(form, right, on, frozenset(arguments.split()), takes_need, since)


def _read(arguments: str, on: On = On.KEY, *, since: str = "") -> Request:
    return _request(Form.READ, Right.READ, on, arguments, since=since)


def _write(arguments: str, on: On = On.KEY, *, since: str = "") -> Request:
    return _request(Form.WRITE, Right.WRITE, on, arguments, since=since)


def _own(form: Form, arguments: str = "", *, takes_need: bool = True) -> Request:
    return _request(form, Right.NONE, On.NOTHING, arguments, takes_need=takes_need)


def _host(arguments: str = "") -> Request:
    return _request(Form.NODE, Right.HOST, On.HOST, arguments)


REQUESTS: Mapping[str, Request] = {
    # reads
    "get": _read("key at"),
    "entry": _read("key at"),
    "get_many": _read("keys at", On.KEYS, since="listing"),
    "log": _read("key start previous limit attributes at"),
    "members": _read("key start previous limit at"),
    "fields": _read("key start limit at"),
    "text_read": _read("key document state at"),
    "text_updates": _read("key limit"),
    "blob_read": _read("key upload part", since="blobs"),
    "blob_parts": _request(Form.READ, Right.WRITE, On.KEY, "key sha256", since="blobs"),
    "scan": _read("prefix start limit values entries conflicts reverse delimiter where_meta at", On.PREFIX),
    "history": _read("key prefix before limit lost", On.KEY_OR_PREFIX),
    "schemas": _read("pattern key", On.SOME),
    "checkpoints": _read("name", On.SOME, since="checkpoints"),
    "purges": _read("pattern", On.SOME, since="purge"),
    # writes
    "set": _write("key value ttl confidence meta seen strict bind"),
    "delete": _write("key meta seen strict"),
    "touch": _write("key ttl seen", since="touch"),
    "blob_write": _write("key upload part value", since="blobs"),
    "blob_set": _write("key upload size sha256 media_type ttl confidence meta seen strict", since="blobs"),
    "append": _write("key value ttl confidence meta seen"),
    "trim": _write("key keep"),
    "remove": _write("key dot", since="log_elements"),
    "incr": _write("key by meta seen"),
    "reset": _write("key seen"),
    "add": _write("key value meta seen"),
    "discard": _write("key value meta seen strict"),
    "merge": _write("key fields confidence meta seen strict if_field_absent"),
    "drop": _write("key field meta seen strict"),
    "resolve": _write("key take value merge seen strict"),
    "text_apply": _write("key document update"),
    "text_compact": _write("key seen"),
    "batch": _write("ops", On.PARTS),
    "bring_back": _request(Form.WRITE, Right.HOST, On.HOST, since="bring_back"),
    "schema_set": _request(
        Form.WRITE,
        Right.ADMIN,
        On.PATTERN,
        "pattern policy refuse_lower remove history kind json ttl sliding writers version older max_entries max_bytes",
    ),
    "checkpoint_set": _request(Form.WRITE, Right.WRITE, On.MADE, "name note prefixes ttl remove", since="checkpoints"),
    "checkpoint_policy": _request(
        Form.WRITE, Right.WRITE, On.SPACE, "name prefixes every keep age remove", since="checkpoint_policies"
    ),
    "restore": _request(Form.WRITE, Right.WRITE, On.SOME, "at prefix start seen undo dry_run", since="checkpoints"),
    "purge": _request(Form.WRITE, Right.ADMIN, On.PATTERN, "pattern", since="purge"),
    # following
    "watch": _request(Form.STANDING, Right.READ, On.PREFIX, "prefix after events_max states"),
    "unwatch": _own(Form.STANDING, "watch", takes_need=False),
    "bind": _request(Form.STANDING, Right.WRITE, On.KEY, "key version", since="bind"),
    "show": _request(Form.STANDING, Right.WRITE, On.KEY, "key value", since="cards"),
    "shown": _request(Form.NODE, Right.READ, On.PREFIX, "prefix", since="cards"),
    "confirm": _own(Form.STANDING, "watch retell"),
    "resolver": _request(Form.STANDING, Right.WRITE, On.PATTERN, "pattern takeover"),
    "resolver_done": _own(Form.STANDING, "resolver key error"),
    # what is here, and why
    "wait": _request(Form.NODE, Right.READ, On.TOKEN, "token w", takes_need=False),
    "explain": _request(Form.NODE, Right.READ, On.KEY, "key", takes_need=False),
    "status": _own(Form.NODE, "reserved far", takes_need=False),
    "vote": _request(Form.NODE, Right.WRITE, On.KEY, "key owner ttl fence give", takes_need=False, since="votes"),
    # spaces
    "space_create": _request(Form.NODE, Right.ADMIN, On.DEFAULT_SPACE, "name nodes private"),
    "space_drop": _request(Form.NODE, Right.ADMIN, On.NAMED_SPACE, "name"),
    "space_list": _own(Form.NODE),
    # who may do what
    "access_grant": _request(Form.NODE, Right.ADMIN, On.PATTERN, "who right pattern"),
    "access_revoke": _request(Form.NODE, Right.ADMIN, On.PATTERN, "who right pattern"),
    "access_list": _own(Form.NODE, "all"),
    "access_quota": _host("who requests_per_s bytes_per_s watches connections"),
    "agent_create": _host("name hash"),
    "agent_revoke": _host("name"),
    "agent_list": _own(Form.NODE),
    # this node and its cluster
    "metrics": _request(Form.NODE, Right.READ, On.ALL_SPACES),
    "log_level": _request(Form.NODE, Right.HOST, On.LEVEL, "level"),
    "backup": _host("device offset end"),
    "cluster_init": _host("listen archive"),
    "cluster_invite": _host("ttl_ms uses addresses local"),
    "cluster_join": _host("invite listen mode"),
    "cluster_remove": _host("node"),
    "cluster_rotate_key": _host("finish"),
    "forget_peer": _host("node"),
    "cluster_members": _own(Form.NODE),
}

WITHOUT_NEED = frozenset(name for name, request in REQUESTS.items() if not request.takes_need)
"""The requests that show nothing of a space, or say what is missing there: they do not take ``need``."""
