"""Features that daemons know beyond version 0.1.0 of the agent protocol, by the names that they say in their hello.

Example: a client merges a field with ``if_field_absent`` at a daemon that was never upgraded. That daemon would take no
notice of the argument and overwrite the field. So a client looks here first: what the daemon has not said to know is
not sent, and the caller is told what to upgrade.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from crdtsync.wire.requests import REQUESTS

_ARGUMENTS: Mapping[str, Mapping[str, frozenset[str]]] = {
    "as_of": dict.fromkeys(
        ("get", "entry", "get_many", "log", "members", "fields", "scan", "text_read"), frozenset({"at"})
    ),
    "bind_in_set": {"set": frozenset({"bind"})},
    "counts_of_forks": {"get": frozenset({"names"}), "incr": frozenset({"totals"})},
    "field_absent": {"merge": frozenset({"if_field_absent"})},
    "history_cap": {"schema_set": frozenset({"history"})},
    "listing": {"scan": frozenset({"reverse", "delimiter", "where_meta"})},
    "log_elements": {"append": frozenset({"ttl", "confidence", "meta"})},
    "schema_caps": {"schema_set": frozenset({"max_bytes", "max_entries", "older"})},
    "schema_rules": {"schema_set": frozenset({"kind", "json", "ttl", "version", "writers"})},
    "schema_sliding": {"schema_set": frozenset({"sliding"})},
    "text_siblings": {"text_read": frozenset({"sibling"})},
}
"""By feature, arguments that came with it to requests that were known before it. An argument that an older daemon may
leave out of account is not here: ``attributes`` of ``log``.
"""


def _all_features() -> Iterator[tuple[str, Mapping[str, frozenset[str]]]]:
    for feature in sorted({*_ARGUMENTS, *(row.since for row in REQUESTS.values() if row.since)}):
        whole = {name: frozenset[str]() for name, row in REQUESTS.items() if row.since == feature}
        yield feature, {**_ARGUMENTS.get(feature, {}), **whole}


FEATURES: Mapping[str, Mapping[str, frozenset[str]]] = dict(_all_features())
"""By feature, of requests those arguments that came with it; none: the request itself did, as its row says."""


def missing_in(features: Iterable[object]) -> dict[str, frozenset[str]]:
    """The requests that a daemon with these features does not know, each with its arguments, or with none if it is not
    known at all.
    """
    told = {*features}
    missing: dict[str, frozenset[str]] = {}
    for name, requests in FEATURES.items():
        if name not in told:
            for request, arguments in requests.items():
                known = missing.get(request)
                is_unknown = not arguments or known == frozenset()
                missing[request] = frozenset() if is_unknown else (known or frozenset()) | arguments
    return missing


def first_missing(missing: Mapping[str, frozenset[str]], request: str, arguments: Mapping[str, object]) -> str | None:
    """The first thing that is missing of a request, or of a part of a batch, in words; None: nothing."""
    lacking = missing.get(request)
    if lacking is not None:
        if not lacking:
            return request
        for argument in sorted(lacking & arguments.keys()):
            return f"{argument} of {request}"
    if request == "batch":
        parts = arguments["ops"]
        assert isinstance(parts, list)
        return next((found for part in parts if (found := first_missing(missing, *part))), None)
    return None
