"""How tests ask for each request: the one table. A request of the daemon that is not in it fails
``test_every_operation_has_its_row``, ``test_the_matrix_of_users_keys_spaces_and_requests_leaks_nothing`` or
``test_no_request_is_forgotten``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from crdtsync.wire.codec import pack

READ, WRITE, ADMIN, HOST = 1, 2, 3, 4


class Probe(NamedTuple):
    """A request, the right that it takes, and on what. Written down apart from the daemon's own table."""

    operation: str
    right: int
    on: str
    args: dict[str, Any]


def probes(prefix: str, token: str) -> Iterator[Probe]:
    key = {"key": f"{prefix}named"}
    for name in ("get", "entry", "log", "members", "fields", "text_read", "text_updates", "history", "explain"):
        yield Probe(name, READ, "key", key)
    for name in ("scan", "history", "watch", "shown"):
        yield Probe(name, READ, "prefix", {"prefix": prefix})
    for args in ({"values": True}, {"entries": True, "values": True}, {"entries": True, "conflicts": True}):
        yield Probe("scan", READ, "some", args)
    narrowed: list[dict[str, Any]] = [{"delimiter": "/"}, {"reverse": True}, {"where_meta": pack({"a": 1})}]
    for args in narrowed:
        yield Probe("scan", READ, "some", args)
    yield Probe("get_many", READ, "key", {"keys": [f"{prefix}named"]})
    yield Probe("get_many", READ, "key", {"keys": [f"{prefix}named", f"{prefix}named"]})
    yield Probe("history", READ, "some", {"prefix": ""})
    yield Probe("history", READ, "some", {"prefix": "", "lost": True})
    yield Probe("watch", READ, "some", {"states": True})
    yield Probe("scan", READ, "whole", {"prefix": "_"})
    yield Probe("watch", READ, "whole", {"prefix": "_schema/"})
    yield Probe("get", READ, "whole", {"key": f"_schema/{prefix}*"})
    yield Probe("schemas", READ, "some", {})
    yield Probe("schemas", READ, "some", key)
    yield Probe("purges", READ, "some", {})
    yield Probe("wait", READ, "some", {"token": token})
    value = {**key, "value": pack("x"), "n": 1}
    for name in ("set", "append", "add", "discard"):
        yield Probe(name, WRITE, "key", value)
    yield Probe("set", WRITE, "key", {**value, "if_absent": True})
    for name in ("delete", "incr", "reset", "text_compact"):
        yield Probe(name, WRITE, "key", {**key, "n": 1})
    yield Probe("trim", WRITE, "key", {**key, "keep": 0, "n": 1})
    yield Probe("remove", WRITE, "key", {**key, "dot": "1.1.0", "n": 1})
    yield Probe("touch", WRITE, "key", {**key, "ttl": 1000, "n": 1})
    upload = {**key, "upload": "0" * 24}
    yield Probe("blob_read", READ, "key", {**upload, "part": 0})
    yield Probe("blob_parts", WRITE, "key", {**key, "sha256": "0" * 64})
    yield Probe("blob_write", WRITE, "key", {**upload, "part": 0, "value": b"x", "n": 1})
    yield Probe("blob_set", WRITE, "key", {**upload, "size": 0, "sha256": "0" * 64, "n": 1})
    yield Probe("merge", WRITE, "key", {**key, "fields": {"f": pack(1)}, "n": 1})
    yield Probe("drop", WRITE, "key", {**key, "field": "f", "n": 1})
    yield Probe("resolve", WRITE, "key", {**value})
    yield Probe("text_apply", WRITE, "key", {**key, "update": b"\x00\x00", "n": 1})
    yield Probe("batch", WRITE, "key", {"ops": [["set", {**key, "value": pack(1)}]], "n": 1})
    yield Probe("batch", ADMIN, "key", {"ops": [["schema_set", {"pattern": f"{prefix}*", "policy": "min"}]], "n": 1})
    yield Probe("schema_set", ADMIN, "key", {"pattern": f"{prefix}**", "policy": "max", "n": 1})
    yield Probe("purge", ADMIN, "key", {"pattern": f"{prefix}nothing/**", "n": 1})
    yield Probe("resolver", WRITE, "key", {"pattern": f"{prefix}*"})
    yield Probe("bind", WRITE, "key", key)
    yield Probe("show", WRITE, "key", value)
    yield Probe("vote", WRITE, "key", key)
    yield Probe("checkpoints", READ, "some", {})
    yield Probe("checkpoint_policy", WRITE, "whole", {"name": "probe", "every": 10**9, "keep": 3, "n": 1})
    yield Probe("checkpoint_set", WRITE, "some", {"name": "probe", "n": 1})
    yield Probe("restore", WRITE, "some", {"at": token, "dry_run": True, "n": 1})
    for name in ("access_grant", "access_revoke"):
        yield Probe(name, ADMIN, "key", {"pattern": f"{prefix}**", "who": "uid:4999", "right": "read"})


def probes_of_a_space(space: str) -> Iterator[Probe]:
    yield Probe("space_drop", ADMIN, "whole", {"name": space})
    yield Probe("metrics", READ, "everything", {})
    yield Probe("log_level", HOST, "host", {"level": "info"})
    yield Probe("log_level", 0, "own", {})
    for name in (
        "cluster_init",
        "cluster_invite",
        "cluster_join",
        "cluster_remove",
        "cluster_rotate_key",
        "forget_peer",
        "backup",
    ):
        yield Probe(name, HOST, "host", {})
    for name in ("agent_create", "agent_revoke", "access_quota"):
        yield Probe(name, HOST, "host", {"name": "somebody", "who": "uid:4999"})
    yield Probe("bring_back", HOST, "host", {"n": 1})
    yield Probe("space_create", ADMIN, "default", {"name": "default"})
    for name in ("space_list", "agent_list", "access_list", "cluster_members", "status"):
        yield Probe(name, 0, "own", {"all": True, "reserved": True})
    for name in ("unwatch", "confirm", "resolver_done"):
        yield Probe(name, 0, "own", {"watch": 999_999, "resolver": 999_999})


SMALL = {
    "unwatch": "names a watch", "confirm": "names a watch", "bind": "names a key", "show": "2 KiB",
    "vote": "names a key",
    "shown": "cards of a bounded number", "resolver": "names a pattern",
    "resolver_done": "names a key", "space_create": "names a space; the fixture makes one",
    "access_grant": "a rule", "access_revoke": "a rule", "access_quota": "a few numbers", "agent_create": "a name",
    "agent_revoke": "a name", "log_level": "a word", "cluster_init": "addresses", "cluster_invite": "addresses",
    "cluster_join": "ends every connection", "cluster_remove": "a name", "cluster_rotate_key": "a key",
    "forget_peer": "a name",
    "backup": "its slices are bounded by the reader's offset and end",
}  # fmt: skip
"""Requests without a large form, and why."""
