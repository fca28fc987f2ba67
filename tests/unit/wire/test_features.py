"""What an older daemon does not know is not sent to it."""

from __future__ import annotations

import pytest

from crdtsync.wire.features import FEATURES, first_missing, missing_in
from crdtsync.wire.requests import REQUESTS


def test_every_feature_is_of_requests_and_arguments_that_there_are():
    for requests in FEATURES.values():
        for name, arguments in requests.items():
            assert arguments <= REQUESTS[name].arguments


KNOWN_TO_0_1_0 = {
    "access_grant", "access_list", "access_quota", "access_revoke", "add", "agent_create", "agent_list",
    "agent_revoke", "append", "backup", "batch", "cluster_init", "cluster_invite", "cluster_join",
    "cluster_members", "cluster_remove", "cluster_rotate_key", "confirm", "delete", "discard", "drop", "entry",
    "explain", "fields", "forget_peer", "get", "history", "incr", "log", "log_level", "members", "merge",
    "metrics", "reset", "resolve", "resolver", "resolver_done", "scan", "schema_set", "schemas", "set",
    "space_create", "space_drop", "space_list", "status", "text_apply", "text_compact", "text_read",
    "text_updates", "trim", "unwatch", "wait", "watch",
}  # fmt: skip


def test_a_daemon_of_this_version_lacks_nothing_and_an_old_one_all_of_it():
    """A request that came later names its feature: else a client would send it to a daemon that does not know it."""
    assert missing_in(FEATURES) == {}
    unknown = {name for name, arguments in missing_in([]).items() if not arguments}
    assert unknown == REQUESTS.keys() - KNOWN_TO_0_1_0
    some = missing_in(["as_of", "checkpoints", "listing", "one of a newer version"])
    assert {"append", "merge", "schema_set"} <= some.keys()
    assert some.keys().isdisjoint({"scan", "get_many", "checkpoints", "restore"})


@pytest.mark.parametrize(
    "request_, arguments, missing",
    [
        ("get", {"key": "k"}, None),
        ("scan", {"prefix": "p"}, None),
        ("scan", {"prefix": "p", "reverse": True}, "reverse of scan"),
        ("get_many", {"keys": ["k"]}, "get_many"),
        ("batch", {"ops": [("set", {"key": "k"}), ("append", {"key": "k", "meta": b""})]}, "meta of append"),
        ("batch", {"ops": [("set", {"key": "k"}), ("append", {"key": "k"})]}, None),
    ],
)
def test_what_is_missing_is_said_in_words(request_, arguments, missing):
    assert first_missing(missing_in([]), request_, arguments) == missing


def test_a_request_that_is_not_known_at_all_stays_unknown_by_another_of_its_arguments():
    assert first_missing(missing_in(["as_of"]), "get_many", {"keys": []}) == "get_many"
    assert first_missing(missing_in(["listing"]), "get_many", {"keys": [], "at": 0}) == "at of get_many"
