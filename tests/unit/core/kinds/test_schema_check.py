"""Rules of schemas: checked when an author writes, and never when a change is merged."""

from __future__ import annotations

from typing import Any

import pytest

from crdtsync.core.crdt.json_schema import JSON_SCHEMA_BYTES_MAX, STEPS_MAX, WORK_MAX, JsonSchema, compiled
from crdtsync.core.replica.schemas.declare import JSON_BYTES_MAX
from crdtsync.errors import InvalidRequest, QuotaExceeded, SchemaMismatch, TooLarge
from crdtsync.wire.codec import pack
from crdtsync.wire.kinds import Kind
from tests.fleet.clock import START_MS
from tests.fleet.replicas import Site, sites

FINDING = {
    "type": "object",
    "properties": {
        "title": {"type": "string", "maxLength": 5},
        "tags": {"type": "array", "items": {"type": "string"}},
        "page": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
    },
    "required": ["title"],
    "additionalProperties": False,
}


def declare(site: Site, pattern: str = "k", json: object = None, **rules: Any) -> None:
    """Set a schema."""
    more: dict[str, Any] = {} if json is None else {"json": pack(json)}
    site.do("schema_set", pattern=pattern, policy="lww", **more, **rules)


def refusal(site: Site, operation: str = "set", **args: Any) -> SchemaMismatch:
    """What a write is refused with; it leaves nothing."""
    vector = dict(site.replica.vector)
    with pytest.raises(SchemaMismatch) as refused:
        site.do(operation, **args)
    assert site.replica.vector == vector
    return refused.value


# -- the value ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value, rule, path",
    [
        ({"title": "too long"}, "maxLength", "$.title"),
        ({"title": "x", "tags": ["a", 2]}, "type", "$.tags[1]"),
        ({"tags": []}, "required", "$"),
        ({"title": "x", "more": 1}, "additionalProperties", "$"),
        ({"title": "x", "page": "one"}, "anyOf", "$.page"),
        ({"title": b"x"}, "type", "$"),
        ("x", "type", "$"),
    ],
)
def test_a_refusal_names_the_rule_and_the_path(value: Any, rule: str, path: str) -> None:
    """And the pattern whose schema it is."""
    (site,) = sites("a")
    declare(site, "findings/*", FINDING)
    site.do("set", "findings/1", value={"title": "x", "tags": ["a"], "page": None})
    error = refusal(site, key="findings/1", value=value)
    assert (error.rule, error.path, error.pattern) == (rule, path, "findings/*")
    assert path in error.message
    assert rule in error.message


def test_what_it_describes_of_each_kind() -> None:
    """A register's value, an element, the fields of a map; nothing of what is taken away."""
    (site,) = sites("a")
    declare(site, "**", {"type": "integer"})
    site.do("append", "log", value=1)
    site.do("add", "set", value=1)
    assert refusal(site, "append", key="log", value="x").rule == "type"
    assert refusal(site, "add", key="set", value="x").rule == "type"
    site.do("incr", "counter", by=1)
    site.do("delete", "log")
    declare(site, "map", {"properties": {"n": {"type": "integer"}}, "additionalProperties": False})
    site.do("merge", "map", fields={"n": 1})
    assert refusal(site, "merge", key="map", fields={"n": "x"}).path == "$.n"
    assert refusal(site, "merge", key="map", fields={"n": 1, "m": 1}).rule == "additionalProperties"


def test_one_bad_write_refuses_its_batch() -> None:
    """Nothing of it is done, and the error says which one it was."""
    (site,) = sites("a")
    declare(site, "n/*", {"type": "integer"})
    ops = [["set", {"key": "n/1", "value": pack(1)}], ["set", {"key": "n/2", "value": pack("x")}]]
    assert refusal(site, "batch", ops=ops).index == 1


def test_it_is_never_checked_when_merged() -> None:
    """Two hosts that were cut off hold the same afterwards, whatever one of them had declared meanwhile."""
    one, two = sites("one", "two")
    declare(one, "k", {"type": "integer"})
    two.do("set", value="x")
    one.sync(two)
    two.sync(one)
    assert one.values() == two.values() == ["x"]
    refusal(two, value="y")


# -- the other rules --------------------------------------------------------------------------------------------


def test_kind_and_writers() -> None:
    """Deleting is for the writers, too; a delete has no kind."""
    one, two = sites("one", "two")
    declare(one, "k/*", kind="log", writers=["one"])
    one.do("append", "k/1", value=1)
    assert refusal(one, value=1, key="k/2").rule == "kind"
    two.sync(one)
    one.sync(two)
    assert refusal(two, "append", key="k/1", value=2).rule == "writers"
    assert refusal(two, "delete", key="k/1").rule == "writers"
    one.do("delete", "k/1")


def test_values_live_as_long_as_the_schema_says() -> None:
    """Those that say nothing themselves."""
    (site,) = sites("a")
    declare(site, "**", ttl=1000)
    site.do("set", "short", value=1)
    site.do("set", "long", value=1, ttl=60_000)
    site.do("incr", "counter", by=1)
    site.now_ms += 5000
    assert [bool(site.replica.entries.live(key, site.now_ms)) for key in ("short", "long", "counter")] == [
        False,
        True,
        True,
    ]


def test_a_writer_of_an_older_version_is_told_to_upgrade() -> None:
    """One that says nothing of versions is checked by the rules alone."""
    (site,) = sites("a")
    declare(site, "k", version=2)
    site.do("set", value=1)
    site.do("set", value=1, schema_version=2)
    error = refusal(site, value=1, schema_version=1)
    assert error.rule == "version"
    assert "upgrade" in error.message
    with pytest.raises(InvalidRequest, match="version 2"):
        declare(site, "k", version=1)
    with pytest.raises(InvalidRequest, match="version 2"):
        declare(site, "k")
    declare(site, "k", version=3)


def test_a_version_that_is_declared_again_with_other_rules_says_since_when_it_is_there() -> None:
    (site,) = sites("a")

    def declared(**rules: Any) -> Any:
        declare(site, "k", **rules)
        (found,) = site.replica.schemas.all()
        return found.plain.get("since")

    assert declared(version=2) is None
    first = declared(version=2, ttl=5000)
    assert first[0] == 2
    assert declared(version=2, ttl=5000) == declared(version=2) == first
    assert declared(version=3) is None, "that is another version"


@pytest.mark.parametrize("since", [2**62, -1, True, "x", None])
def test_what_is_no_time_is_not_kept_as_one(since: object) -> None:
    """A peer may write anything."""
    (site,) = sites("a")
    site.forge((None, Kind.REGISTER, {"policy": "lww", "version": 2, "since": [2, since]}), key="_schema/k")
    declare(site, "k", version=2, ttl=5000)
    (found,) = site.replica.schemas.all()
    assert found.plain["since"] == [2, site.now_ms]


def test_a_version_0_that_a_peer_made_up_gives_way() -> None:
    (site,) = sites("a")
    site.forge((None, Kind.REGISTER, {"policy": "lww", "version": 0}), key="_schema/k")
    declare(site, "k", ttl=5000)
    (found,) = site.replica.schemas.all()
    assert found.plain == {"policy": "lww", "refuse_lower": False, "ttl": 5000}


def test_of_two_that_declared_a_version_apart_the_first_one_says_since_when_it_is_there() -> None:
    """Also where that one had declared it before, and also where the other one says nothing of a version."""
    a, b, c = sites("a", "b", "c")
    a.now_ms += 1000
    b.now_ms += 2000
    for site in (a, b):
        declare(site, "k", version=2, ttl=site.now_ms)
    declare(c, "k")
    a.sync(b, c)
    a.now_ms += 5000
    declare(a, "k", version=2, ttl=5000)
    b.now_ms += 1000
    declare(b, "k", version=2, ttl=6000)
    b.sync(a)
    b.now_ms += 5000
    declare(b, "k", version=2, ttl=7000)
    for site in (a, b):
        (found,) = site.replica.schemas.all()
        assert found.plain["since"] == [2, START_MS + 1000]
        a.sync(b)


# -- what is declared -------------------------------------------------------------------------------------------


def alternatives(depth: int) -> dict[str, Any]:
    """A small schema that looks two to the power of ``depth`` times at one place."""
    parts = {str(n): {"anyOf": [{"$ref": f"#/$defs/{n + 1}"}] * 2} for n in range(depth)}
    return {"$ref": "#/$defs/0", "$defs": {**parts, str(depth): {"const": 5}}}


TREE = {"type": "object", "properties": {"kids": {"type": "array", "items": {"$ref": "#"}}}, "uniqueItems": False}


@pytest.mark.parametrize(
    "json, why",
    [
        (5, "a map"),
        ({"properties": {"a": {"type": "objekt"}}}, r"no JSON Schema: \$\.properties\.a\.type: "),
        ({"anyOf": 5}, "no JSON Schema"),
        ({"pattern": "(?=a)b"}, "no JSON Schema"),
        ({"pattern": "(x{1000}){1000}"}, "no JSON Schema"),
        ({"$ref": "#"}, "without going into the value"),
        ({"$defs": {"a": {"allOf": [{"$ref": "#/$defs/a"}]}}}, None),
        ({"$ref": "http://127.0.0.1/x"}, "must be # or"),
        ({"$ref": "#/$defs/a"}, "must be # or"),
        ({"$id": "x"}, "may not have"),
        ({"unevaluatedProperties": False}, "additionalProperties"),
        ({"$schema": "http://json-schema.org/draft-07/schema#"}, "2020-12"),
        (alternatives(15), "place of a value"),
        ({"properties": {"a": {"anyOf": [{"$ref": "#"}, {"$ref": "#", "title": "x"}]}}}, "one place"),
        ({"uniqueItems": True, "items": {"$ref": "#"}}, "one place"),
        ({"properties": {str(n): {} for n in range(600)}}, "parts"),
        ({"description": "x" * JSON_SCHEMA_BYTES_MAX}, "bytes"),
    ],
)
def test_a_schema_that_cannot_be_checked_in_time_is_refused(json: Any, why: str | None) -> None:
    """So is one that is none, or leads elsewhere; one that is only never used is not looked at."""
    (site,) = sites("a")
    if why is None:
        declare(site, "k", json)
        return
    with pytest.raises(InvalidRequest, match=why):
        declare(site, "k", json)


def test_steps_are_counted_at_one_place() -> None:
    """Ten properties are ten places; a tree that refers to itself takes as many steps at each."""
    schema = compiled(pack({"properties": {str(n): {"type": "string"} for n in range(10)}}))
    assert isinstance(schema, JsonSchema)
    assert schema.steps == 2
    tree = compiled(pack(TREE))
    assert isinstance(tree, JsonSchema)
    assert tree.steps <= 40
    assert tree.misfit({"kids": [{"kids": [{}]}, {"kids": 5}]}) is not None
    branching = compiled(pack(alternatives(5)))
    assert isinstance(branching, JsonSchema)
    assert 2**5 <= branching.steps <= STEPS_MAX


def test_the_work_of_a_change_is_bounded() -> None:
    """By the bytes of all its values, before anything is looked at."""
    (site,) = sites("a")
    declare(site, "k/*", {"items": {"pattern": "^[01]*1[01]{60}$"}})
    steps = compiled(pack({"items": {"pattern": "^[01]*1[01]{60}$"}}))
    assert isinstance(steps, JsonSchema)
    with pytest.raises(TooLarge, match="steps"):
        site.do("set", "k/1", value=["0"] * (WORK_MAX // steps.steps))
    ops = [["set", {"key": f"k/{n}", "value": pack(["1" + "0" * 60] * 9)}] for n in range(60)]
    with pytest.raises(TooLarge, match="steps"):
        site.do("batch", ops=ops)


def test_json_schemas_of_a_space_have_a_bound() -> None:
    """All together."""
    (site,) = sites("a")
    large = {"const": 1, "description": "x" * 16_000}
    for number in range(JSON_BYTES_MAX // 16_050):
        declare(site, f"k/{number}", large)
    with pytest.raises(QuotaExceeded, match="JSON Schemas"):
        declare(site, "more", large)


@pytest.mark.parametrize(
    "rules, why",
    [
        ({"kind": "tree"}, "kind must be"),
        ({"kind": "counter", "json": {"type": "integer"}}, "goes with"),
        ({"kind": "set", "ttl": 1000}, "goes with"),
        ({"ttl": 0}, "ttl"),
        ({"writers": []}, "writers"),
        ({"writers": "ann"}, "writers"),
        ({"writers": [5]}, "name"),
        ({"version": 0}, "above 0"),
        ({"version": True}, "above 0"),
    ],
)
def test_rules_that_are_none(rules: dict[str, Any], why: str) -> None:
    """Each says what is allowed."""
    (site,) = sites("a")
    with pytest.raises(InvalidRequest, match=why):
        declare(site, "k", **rules)


def test_what_is_declared_carelessly_elsewhere_does_not_stop_writes() -> None:
    """Fields that are no rules here, of a newer version or a careless author, are as if they were not there."""
    (site,) = sites("a")
    plain = {"policy": "lww", "json": b"\xc1", "kind": 5, "writers": "x", "ttl": "y", "version": "z"}
    site.forge((None, 0, plain), key="_schema/k")  # type: ignore[arg-type]
    site.do("set", value="x")
    assert site.values() == ["x"]
