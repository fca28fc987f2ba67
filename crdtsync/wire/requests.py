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
``crdtsync/client/aio/methods``, a command with its line in ``crdtsyncd.cli.app``, a row in ``tests/requests.py``, and a
test.
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

    ``meaning``: what it answers, for people who write a client, in Markdown; of a write, what it does and answers
    beside its token. ``since``: the feature with which a daemon says that it knows the request; empty: version 0.1.0
    did already.
    """

    form: Form
    right: Right
    on: On
    arguments: frozenset[str]
    meaning: str
    takes_need: bool = True
    since: str = ""


ARGUMENTS = frozenset({"agent", "need", "space", "timeout"})
"""Those that every request takes; ``need`` but for a few."""
READ_ARGUMENTS = frozenset({"after"})
"""Those that every read takes beside."""
WRITE_ARGUMENTS: Mapping[str, str] = {
    "n": """a number that the client counts up. After a reconnect to the same `database`, the client sends its
        unanswered writes again, in order, with the same `n` and `"again": true`. The daemon then answers from memory
        what was done (24 h, the newest 1,024 writes of a client; 262,144 and 64 MiB in all) and does the rest. At
        another `database` the outcome is unknown, and the client must say so""",
    "again": "true: the client has sent this `n` before",
    "w": """a number of nodes, `"majority"` or `"all"`: the reply comes when so many have the write on disk, with
        `nodes`. `"reached"`: when all nodes that can be reached at the moment have it, and this daemon holds what those
        held then. If time runs out, the error `timeout` has `token`, `held_by` and `written` (what the reply would have
        told): the local write stands. Members are counted anew each time. More than there are is `invalid_request` with
        `members`, and nothing is written""",
    "if_version": """write only if the key has this version. Else the error is `version_mismatch` with `key`, `current`
        (the entry, or null) and `token`. It stands for `seen` if that is absent; `schema_set` does not take it""",
    "if_absent": "true: write only if the key does not exist; the rest as with `if_version`",
    "schema_version": "the version of the key's [schema](#schemas) that the author knows",
}
"""Those that every write takes beside, with what they mean."""


def _request(
    form: Form, right: Right, on: On, arguments: str, meaning: str, *, takes_need: bool = True, since: str = ""
) -> Request:
    return Request(form, right, on, frozenset(arguments.split()), meaning, takes_need, since)


def _read(arguments: str, meaning: str, on: On = On.KEY, *, since: str = "") -> Request:
    return _request(Form.READ, Right.READ, on, arguments, meaning, since=since)


def _write(arguments: str, meaning: str, on: On = On.KEY, *, since: str = "") -> Request:
    return _request(Form.WRITE, Right.WRITE, on, arguments, meaning, since=since)


def _own(form: Form, arguments: str, meaning: str, *, takes_need: bool = True) -> Request:
    return _request(form, Right.NONE, On.NOTHING, arguments, meaning, takes_need=takes_need)


def _host(arguments: str, meaning: str) -> Request:
    return _request(Form.NODE, Right.HOST, On.HOST, arguments, meaning)


REQUESTS: Mapping[str, Request] = {
    # reads
    "get": _read(
        "key at names",
        """`{"value", "kind", "version", "siblings"}`, or null if the key is absent. `value` is the winner: a str for a
        text, an int for a counter, a list for a log or set, a map for a map. `version` covers the winner alone in a
        write, and all that is alive in a delete; `siblings` counts the others. Under the policy `all` the value of a
        register, or of each field, is an array of all, and `version` covers them. Under `manual`, several values are
        the error `unresolved` with `key`, `current`, `token`. What does not fit into a reply is `too_large`. With
        `names` a counter has also `{"names": {name: [up, down, up_reset, down_reset]}}`: what was counted under each
        name, and what resets took off""",
    ),
    "entry": _read("key at", "an [entry](#entries), or null"),
    "get_many": _read(
        "keys at",
        """`{"items": [as of scan], "done", "token"}` for 1 to 1,000 `keys`; ask again for those after the first
        `done`""",
        On.KEYS,
        since="listing",
    ),
    "log": _read(
        "key start previous limit attributes at",
        """elements from the index `start` on (negative: from the end), at most `limit` ≤ 1,000: `{"items": [[value,
        dot, agent, node, time], …], "start", "length", "version", "token"}`; with `attributes`, items have `confidence,
        meta, ttl` too. `previous` is the dot of the element before `start`: if that has moved, items begin behind it;
        if it is gone, with the first""",
    ),
    "members": _read(
        "key start previous limit at",
        "as `log`, of a set, in the order in which elements were last added",
    ),
    "fields": _read(
        "key start limit at",
        """of a map, by name, only those after `start`: `{"items": [[field, value, dot, agent, node, time], …],
        "length", "more", "version", "token"}`""",
    ),
    "text_read": _read(
        "key document state sibling at",
        """`{"document", "update", "version", "token"}`, or null. With `document` and `state` (a Yjs state vector)
        `update` is what is missing; if the document is another one by now, the whole. With `sibling`, a dot, it is of
        that value of the key""",
    ),
    "text_updates": _read(
        "key limit",
        """the edits that `after` does not cover, in causal order: `{"document", "items": [[update, token, agent, node],
        …], "token", "more", "reset"}`. `reset`: history does not reach back, or the document is another one; the first
        item is then the whole text. Here `after` is not waited for""",
    ),
    "blob_read": _read(
        "key upload part",
        """`{"value"}`, the bytes of one part; `upload` stands in the blob's value. Also of a blob that is gone, while
        its bytes are here; else `too_old`""",
        since="blobs",
    ),
    "blob_parts": _request(
        Form.READ,
        Right.WRITE,
        On.KEY,
        "key sha256",
        """`{"upload", "parts"}`: an unfinished upload here of a blob with this hash, and the hashes of its first parts;
        null and `[]` if there is none""",
        since="blobs",
    ),
    "scan": _read(
        "prefix start limit values entries conflicts reverse delimiter where_meta at",
        "a page of keys, [below](#scan)",
        On.PREFIX,
    ),
    "history": _read("key prefix before limit lost", "what was written, [below](#history)", On.KEY_OR_PREFIX),
    "schemas": _read(
        "pattern key",
        """`{"items": [{"pattern", "policy", "refuse_lower", "history", "schema", "siblings", "dot", "agent", "node",
        "time"}, …], "token"}`: that of `pattern`, the one that applies to `key`, or all. `schema` is all that is
        stored, a bin; `siblings` counts what was declared at the same time and does not apply""",
        On.SOME,
    ),
    "checkpoints": _read(
        "name",
        """all, or that of `name`: `{"items": [{"name", "note", "prefixes", "keys", "cut", "whole", "dot", "agent",
        "node", "time", "ttl", "versions"}, …], "held_bytes", "bytes_max", "token"}`. `cut` is a token of what it holds;
        `whole`: this daemon can show all of it; `held_bytes`: what the past of the space takes here, of at most
        `bytes_max`, null if the daemon has not looked yet; `versions`: those that schemas had, by pattern""",
        On.SOME,
        since="checkpoints",
    ),
    "purges": _read(
        "pattern",
        """`{"items": [{"pattern", "dot", "agent", "node", "time", "done", "values", "changes", "texts"}, …], "token"}`:
        that of `pattern`, or all that the agent may read. `done`: this node stores nothing of it; before that, the
        counts of what went here are null""",
        On.SOME,
        since="purge",
    ),
    # writes
    "set": _write(
        "key value ttl confidence meta seen strict bind",
        """writes a value. `confidence` is 0 to 1, `meta` the bin of a map. Answers `version` (of this entry alone),
        `behind`, `siblings` (how many others live on), `replaced` (null or an entry), `lost` (entries that it took
        along). With `bind` (a bool; not in a batch) the key goes with the connection, as by the request `bind`; the
        answer has its `clock`, with `w` of `reached` behind all that those nodes held, and `alone`: the hybrid time of
        the write, if nothing else lives under the key then and nothing later has come from other nodes, else 0""",
    ),
    "delete": _write(
        "key meta seen strict",
        "removes what `seen` covers, or all that is alive; `meta` is told in its event: `existed`",
    ),
    "touch": _write(
        "key ttl seen",
        "writes the winner anew with this `ttl` (absent: for ever): `existed`",
        since="touch",
    ),
    "blob_write": _write(
        "key upload part value",
        """stores `value` (1 to 524,288 bytes as they are, no msgpack) as the `part` (from 0; all but the last are full)
        of the upload `upload` (24 hexadecimal digits, best the first 16 of the SHA-256 and 8 random ones). Nobody sees
        it yet""",
        since="blobs",
    ),
    "blob_set": _write(
        "key upload size sha256 media_type ttl confidence meta seen strict",
        """shows the blob `upload`, whose parts this daemon has taken: `size` in bytes, `sha256` in hex, `media_type`
        (or null). Else as `set`. A missing part is `invalid_request`""",
        since="blobs",
    ),
    "append": _write(
        "key value ttl confidence meta seen",
        "adds an element; `ttl`, `confidence`, `meta` are the element's: `length`",
    ),
    "trim": _write("key keep", "keeps the newest `keep` elements: `removed`, `length`"),
    "remove": _write(
        "key dot",
        "removes the element that `dot` names, and waits for one that is on its way here: `existed`, `length`",
        since="log_elements",
    ),
    "incr": _write(
        "key by meta seen totals",
        """adds `by` (a whole number, default 1, at most ±2^53): `value`, `behind`. With `totals`, `[name, up, down]`,
        it counts up to these under a name that begins with `fork:`, and not beyond if it is done again: for what a
        fork has counted""",
    ),
    "reset": _write("key seen", "sets the counter to 0: `value` (what it was), `behind`"),
    "add": _write("key value meta seen", "adds an element: `added` (whether it was new), `length`, `behind`"),
    "discard": _write(
        "key value meta seen strict",
        "removes an element; without `seen`, all that is held of it: `existed`, `length`, `behind`",
    ),
    "merge": _write(
        "key fields confidence meta seen strict if_field_absent",
        """writes `fields`, a map of 1 to 1,000 names to bins; with `if_field_absent` only if the map has none of them
        (else the error has `field`): `siblings`, `replaced` (null or `{field: entry}`), `lost`, `behind`""",
    ),
    "drop": _write(
        "key field meta seen strict",
        "removes a field; without `seen`, all that is held of it: `existed`, `behind`",
    ),
    "resolve": _write(
        "key take value merge seen strict",
        """puts one value in the place of several, see [resolving](#resolving): `resolved` (how many it superseded),
        `version`""",
    ),
    "text_apply": _write(
        "key document update",
        "applies `update` (bin, Yjs v1) to `document` (null: a new text): `document`, `version`",
    ),
    "text_compact": _write(
        "key seen",
        """stores the text anew: `document` (the same if there was nothing to gain, or if 6 older documents of the text
        are still kept), `bytes_before`, `bytes_after`. `invalid_value` if the text holds more than characters""",
    ),
    "batch": _write(
        "ops",
        """carries out `ops`, `[[operation, arguments], …]`, as one change: any of these writes, without `n` and `w`; at
        most 1,000 (each field of a `merge` is one). Answers `results`, one each, without tokens. Beyond 256 KiB, values
        in `replaced` are null""",
        On.PARTS,
    ),
    "bring_back": _request(
        Form.WRITE,
        Right.HOST,
        On.HOST,
        "",
        """writes anew, in one change, the next part of what snapshots took away unconfirmed; not in a batch: `written`
        and `left` (how many values), and `more` (a bool): then there is more to ask for""",
        since="bring_back",
    ),
    "schema_set": _request(
        Form.WRITE,
        Right.ADMIN,
        On.PATTERN,
        "pattern policy refuse_lower remove history kind json ttl sliding writers version older max_entries max_bytes",
        """declares what holds for the keys of `pattern`, see [schemas](#schemas): `replaced` (null, or what was
        declared, a bin), `existed`""",
    ),
    "checkpoint_set": _request(
        Form.WRITE,
        Right.WRITE,
        On.MADE,
        "name note prefixes ttl remove",
        """makes a checkpoint of what this daemon holds; `{"existed", …}`. `prefixes` are a list, for people and
        restores; `ttl` is when it ends. A name that is there is `version_mismatch`; over 100, or [too much held
        back](../how-to/go-back.md#what-checkpoints-cost), is `quota_exceeded`. `remove`: deletes it instead, which
        takes write on all of the space unless the agent made it, as its key proves""",
        since="checkpoints",
    ),
    "checkpoint_policy": _request(
        Form.WRITE,
        Right.WRITE,
        On.SPACE,
        "name prefixes every keep age remove",
        """has nodes make a checkpoint `every` so many ms while keys with these `prefixes` change; `{"existed", …}`. The
        newest `keep` (3 to 50) stay, and those younger than `age` ms. A name that is there is replaced. `remove`: ends
        it instead""",
        since="checkpoint_policies",
    ),
    "restore": _request(
        Form.WRITE,
        Right.WRITE,
        On.SOME,
        "at prefix start seen undo dry_run",
        """makes of keys what they were `at` a point: `{"items": [[key, "restored", "removed" or "changed"], …],
        "left": [[key, why], …], "blobs": [key, …], "next", "seen", …}`, as one change. Of those `left`, the client
        may put `blobs` anew. Of more, `next` is the next request's `start`, and `seen` goes along: what was there
        when the first began. `undo`: only what that agent has done since. `dry_run` (bool): nothing is written. Not
        in a batch""",
        since="checkpoints",
    ),
    "purge": _request(
        Form.WRITE,
        Right.ADMIN,
        On.PATTERN,
        "pattern",
        """deletes the keys of `pattern`, and has every host [forget](../how-to/model-data.md#forget-for-good) what they
        held: `removed` (how many keys at once), `more` (whether others follow in the background). In a batch it comes
        first""",
        since="purge",
    ),
    # following
    "watch": _request(
        Form.STANDING,
        Right.READ,
        On.PREFIX,
        "prefix after events_max states",
        """answers `{"token"}`; then [events](#watch) come, or with `states` [states](#state-watches)""",
    ),
    "unwatch": _own(Form.STANDING, "watch", "ends the watch or resolver with the id `watch`", takes_need=False),
    "bind": _request(
        Form.STANDING,
        Right.WRITE,
        On.KEY,
        "key version",
        """lets what `version` covers of the key, and what the connection sets the key to later, go with the connection:
        the daemon deletes it when that ends, unless the daemon stops itself or its disk is full. It takes the place of
        an earlier `bind` of the key; without `version` nothing goes. A connection that takes over from one of the same
        `client` has its keys too; 1,000 at most. Answers `{"clock"}`: the hybrid time of the space, an integer; all
        writes of those who have seen it come later""",
        since="bind",
    ),
    "show": _request(
        Form.STANDING,
        Right.WRITE,
        On.KEY,
        "key value",
        """shows the value on all hosts that can be reached, under the key, until the connection ends; nothing is
        stored. It takes the place of what this connection showed there; without `value` nothing is shown there any
        more. A connection that takes over from one of the same `client` goes on showing. 2 KiB a value, 100 a
        connection, 1,000 a node""",
        since="cards",
    ),
    "shown": _request(
        Form.NODE,
        Right.READ,
        On.PREFIX,
        "prefix",
        """what is shown: `{"cards"}`, each with `key`, `value`, `agent` and `node`, a name""",
        since="cards",
    ),
    "confirm": _own(
        Form.STANDING,
        "watch retell",
        """of a watch of states: answers, behind all that was told, `{"token", "lag", "away"}`. Up to `token` all has
        been told; null: `current` will come. `lag`: how many changes this daemon lacks; `away`: how many nodes it is
        not connected to. `retell` (up to 1,000 keys) asks for the `state` of keys""",
    ),
    "resolver": _request(
        Form.STANDING,
        Right.WRITE,
        On.PATTERN,
        "pattern takeover",
        """answers `{"pattern", "takeover"}`; then [conflicts](#resolvers) come. `takeover`: how long an answer may
        take, 1 to 3,600,000 ms, default 30,000""",
    ),
    "resolver_done": _own(
        Form.STANDING,
        "resolver key error",
        """ends a resolver's turn; `error` says why there is no answer. Answers `{"settled"}`: whether what it was shown
        is no longer in conflict""",
    ),
    # what is here, and why
    "wait": _request(
        Form.NODE,
        Right.READ,
        On.TOKEN,
        "token w",
        """`{"nodes"}`: how many hold the token, once `w` is met. A `timeout` has `held_by`, and `missing` if this
        daemon lacks some of it""",
        takes_need=False,
    ),
    "explain": _request(
        Form.NODE,
        Right.READ,
        On.KEY,
        "key",
        "why this node has of a key what it has, [below](#explain)",
        takes_need=False,
    ),
    "status": _own(
        Form.NODE,
        "reserved far",
        """what [`status --json`](command-line.md#status) prints. `reserved`: with the cluster's own space. `far`: ask
        nodes that are several hops away for their lag, for up to 1 s. If the answer has `limited`, it shows only what
        the sender may read""",
        takes_need=False,
    ),
    "vote": _request(
        Form.NODE,
        Right.WRITE,
        On.KEY,
        "key owner ttl fence give",
        """asks the voters to promise `key` to `owner` (16 random bytes) for `ttl` ms, to renew that with its `fence`,
        or with `give` to forget it: `{"granted": true, "fence"}` when a majority has it on disk, else `{"granted":
        false, "agent", "left", "voters", "answered", "why"}`: for whom it is promised (or null), for how many ms yet,
        how many have answered, and why some have no vote""",
        takes_need=False,
        since="votes",
    ),
    # spaces
    "space_create": _request(
        Form.NODE,
        Right.ADMIN,
        On.DEFAULT_SPACE,
        "name nodes private",
        """a *space*, with `created` and `token`. `nodes`: ids, beginnings of ids (8 characters or more) or names; null:
        all. `private`: it begins with rights for this agent alone, and must be new""",
    ),
    "space_drop": _request(
        Form.NODE,
        Right.ADMIN,
        On.NAMED_SPACE,
        "name",
        """`{"name", "epoch", "archive", "until", "token"}`; the archive is null if this node held nothing""",
    ),
    "space_list": _own(
        Form.NODE,
        "",
        """`{"spaces": [space, …], "archives": [{"name", "entries", "bytes", "unseen", "time", "until"}, …]}`""",
    ),
    # who may do what
    "access_grant": _request(
        Form.NODE,
        Right.ADMIN,
        On.PATTERN,
        "who right pattern",
        """`{"space", "who", "pattern", "right", "changed", "token"}`. `right` is `read`, `write` or `admin`; `pattern`
        is all keys by default""",
    ),
    "access_revoke": _request(
        Form.NODE,
        Right.ADMIN,
        On.PATTERN,
        "who right pattern",
        "the same, with the `right` that is left, or null. It takes away `right` and those above it; `read` by default",
    ),
    "access_list": _own(
        Form.NODE,
        "all",
        """`{"rules": [{"space", "who", "pattern", "right", "time", "by"}, …], "quotas": […], "quota_defaults"}`; `all`:
        of all spaces""",
    ),
    "access_quota": _host(
        "who requests_per_s bytes_per_s watches connections",
        "the quotas of `who` as they are now, and `token`; null as an argument is the default",
    ),
    "agent_create": _host(
        "name hash",
        """`{"name", "key", "token"}`: the key is shown this once. With `hash` (BLAKE2b-256 of the secret,
        personalisation `crdtsync-agent-k`) the client has made the key, `key` is null, and the request may be
        repeated""",
    ),
    "agent_revoke": _host("name", """`{"name", "ended", "token"}`: how many connections ended here"""),
    "agent_list": _own(Form.NODE, "", """`{"agents": [{"name", "time", "by", "attached"}, …]}`"""),
    # this node and its cluster
    "metrics": _request(Form.NODE, Right.READ, On.ALL_SPACES, "", """`{"text"}`, in Prometheus' format"""),
    "log_level": _request(
        Form.NODE,
        Right.HOST,
        On.LEVEL,
        "level",
        """`{"level"}`: what it is now. `level`, to change it: `debug`, `info`, `warning` or `error`""",
    ),
    "backup": _host("device offset end", "a backup, [below](#backups)"),
    "cluster_init": _host(
        "listen archive",
        """`{"cluster", "node", "members", "addresses"}`. `listen` is a list of `HOST:PORT`. `archive`: put aside data
        that names no cluster (else `not_empty`); the answer has `archive`, the connection ends, and the client asks
        once more""",
    ),
    "cluster_invite": _host("ttl_ms uses addresses local", """`{"invite", "expires_ms", "uses", "addresses"}`"""),
    "cluster_join": _host(
        "invite listen mode",
        """as `cluster_init`, with `archive` (where old data is, or null), `kept` (the data was of that cluster, and
        stays) and `already` (nothing has changed). Unless `kept`, the connection then ends, since the node has another
        database. `mode` is `archive` or absent""",
    ),
    "cluster_remove": _host("node", """`{"node", "name", "members"}`. `node` is a name, or the beginning of an id"""),
    "cluster_rotate_key": _host(
        "finish",
        """`{"keys": pins, the one in use first, "waits_for": names of members that do not know the next one}`""",
    ),
    "forget_peer": _host("node", """`{"node", "name"}`, or the error `member` or `connected`"""),
    "cluster_members": _own(
        Form.NODE,
        "",
        """as `cluster_init`, with `members`: `{"id", "name", "state": "self, connected, down or removed", "addresses",
        "joined", "by", "last_seen", "pins"}`""",
    ),
}

WITHOUT_NEED = frozenset(name for name, request in REQUESTS.items() if not request.takes_need)
"""The requests that show nothing of a space, or say what is missing there: they do not take ``need``."""
