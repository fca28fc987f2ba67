"""What an older daemon does not know is not sent to it."""

from __future__ import annotations

import pytest

from crdtsync.wire.features import FEATURES, first_missing, missing_in
from crdtsync.wire.requests import REQUESTS


def test_every_feature_is_of_requests_and_arguments_that_there_are():
    for requests in FEATURES.values():
        for name, arguments in requests.items():
            assert arguments <= REQUESTS[name].arguments


def test_a_daemon_of_this_version_lacks_nothing_and_an_old_one_all_of_it():
    assert missing_in(FEATURES) == {}
    missing = missing_in(["as_of", "checkpoints", "listing", "one of a newer version"])
    assert missing.keys() == {
        "append", "bind", "blob_parts", "blob_read", "blob_set", "blob_write",
        "bring_back", "checkpoint_policy", "merge", "purge", "purges", "remove", "schema_set", "show", "shown", "touch",
        "vote",
    }  # fmt: skip
    assert missing_in([]).keys() >= {"scan", "get_many", "touch"}


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
