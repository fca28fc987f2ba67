"""Models: keys by the fields of a class, for a dataclass, a TypedDict and a Pydantic model alike."""

from __future__ import annotations

import operator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal, NotRequired, TypedDict, assert_type

import pytest
from pydantic import BaseModel, Field

from crdtsync import AsyncClient, InvalidRequest, SchemaMismatch
from crdtsync.coordination import Model, ModelField, Text
from crdtsync.coordination.shapes import fields_of
from tests.harness import Daemon

pytestmark = pytest.mark.integration


@dataclass
class Finding:
    title: str
    pages: list[int] = field(default_factory=list)
    by: str | None = None


@dataclass
class Plan:
    goal: str
    findings: Annotated[list[Finding], operator.add]
    tags: set[str]
    spent: Annotated[int, operator.add]
    owners: dict[str, Finding]
    notes: Text
    state: Literal["open", "done"] = "open"


class Typed(TypedDict):
    goal: str
    findings: Annotated[list[dict[str, Any]], operator.add]
    tags: NotRequired[set[str]]
    note: NotRequired[str]


class Source(BaseModel):
    url: str
    rank: int = 0


class Report(BaseModel):
    title: str = Field("untitled", min_length=2)
    until: datetime | None = None
    best: Source | None = None
    sources: Annotated[list[Source], operator.add] = []
    by_name: dict[str, Source] = {}


def test_the_annotation_says_the_kind():
    kinds = {name: shape.kind for name, shape in fields_of(Plan).items()}
    assert kinds == {
        "goal": "register", "findings": "log", "tags": "set", "spent": "counter", "owners": "map", "notes": "text",
        "state": "register",
    }  # fmt: skip
    assert [shape.kind for shape in fields_of(Typed).values()] == ["register", "log", "set", "register"]
    assert [shape.kind for shape in fields_of(Report).values()] == ["register", "register", "register", "log", "map"]


def test_a_field_has_the_type_that_the_class_says(daemon: Daemon):
    """``./dev lint`` checks with mypy what is asserted, and that what is ignored here would be refused."""
    state = daemon.client("ann")
    plan = state.model(Plan, "plan/")
    goal = assert_type(plan.of(lambda plan: plan.goal), ModelField[str])
    goal.set("ship")
    goal.update(lambda old: (old or "").upper())
    assert assert_type(goal.get(), str | None) == plan.goal.get() == "SHIP"
    assert assert_type(plan.of(lambda plan: plan.state).get(0), Literal["open", "done"] | int) == 0
    findings = plan.of(lambda plan: plan.findings)
    findings.append(Finding("cold cache"))
    assert assert_type(findings.get([]), list[Finding]) == [Finding("cold cache")]
    plan.of(lambda plan: plan.tags).add("perf")
    assert plan.of(lambda plan: plan.spent).incr() == 1
    plan.of(lambda plan: plan.owners).merge({"db": Finding("x")})
    assert plan.read().tags == {"perf"}
    typed = state.model(Typed, "typed/").of(lambda plan: plan["findings"])
    assert assert_type(typed, ModelField[list[dict[str, Any]]]).append({"page": 3}) == 1

    with pytest.raises(AttributeError, match="no field 'gaol'"):
        plan.of(lambda plan: plan.gaol)  # type: ignore[attr-defined]  # mypy sees it, too
    with pytest.raises(InvalidRequest, match="gives a field"):
        plan.of(lambda plan: 5)
    plan.declare()
    with pytest.raises(SchemaMismatch):
        goal.set(5)  # type: ignore[arg-type]  # likewise
    with pytest.raises(SchemaMismatch):
        findings.append("no finding")  # type: ignore[arg-type]  # likewise
    with pytest.raises(SchemaMismatch):
        plan.of(lambda plan: plan.tags).add(3)  # type: ignore[arg-type]  # likewise


@dataclass
class BadCounter:
    spent: Annotated[str, operator.add]


@dataclass
class BadMap:
    owners: dict[int, str]


@dataclass
class BadType:
    when: complex


@dataclass
class Endless:
    next: Endless | None


@dataclass
class BadSet:
    found: set[Finding]


@pytest.mark.parametrize(
    "shape, why",
    [
        (BadCounter, "a counter"),
        (BadMap, "strings"),
        (BadType, "Pydantic"),
        (Endless, "Pydantic"),
        (BadSet, "BadSet.found: a set holds what can be hashed"),
        (int, "a model is"),
    ],
)
def test_what_is_no_model_says_which_field(shape: Any, why: str):
    with pytest.raises(InvalidRequest, match=why):
        fields_of(shape)


def test_what_does_not_fit_a_field_is_refused_and_names_its_key(daemon: Daemon):
    state = daemon.client("ann")
    report = state.model(Report, "fit/")
    report.declare()
    with pytest.raises(SchemaMismatch, match="'fit/until' does not take this value"):
        report.until.set("nonsense")
    with pytest.raises(SchemaMismatch, match="'fit/title' does not take this value"):
        report.title.set("x")
    assert report.read() == Report()
    other = state.model(Report, "misfit/")
    state.append("misfit/title", 1)
    with pytest.raises(InvalidRequest, match="what 'misfit/title' holds does not fit its field"):
        other.read()
    with pytest.raises(InvalidRequest, match="'misfit/title'"):
        other.title.get()


def test_a_model_leaves_other_rules_of_its_keys_as_they_are(daemon: Daemon):
    state = daemon.client("ann")
    state.model(Plan, "rules/").declare()
    there = state.schema("rules/goal", exact=True)
    assert there is not None
    state.schema_set(
        "rules/goal", "first", kind=there.kind, json_schema=there.json_schema, ttl=3600, writers=["ann"], history=False
    )
    state.model(Plan, "rules/", version=2).declare()
    found = state.schema("rules/goal", exact=True)
    assert found is not None
    assert (found.policy, found.writers, found.ttl, found.history) == ("first", ("ann",), timedelta(hours=1), False)
    assert found.version == 2
    other = state.schema("rules/tags", exact=True)
    assert other is not None
    assert (other.policy, other.writers, other.version) == ("lww", (), 2)


def test_a_model_is_written_and_read_by_its_types(daemon: Daemon):
    state = daemon.client("ann")
    plan: Model[Plan] = state.model(Plan, "plan/")
    plan.declare()
    with pytest.raises(LookupError, match="plan/goal"):
        plan.read()
    plan.goal.set("ship")
    plan.findings.append(Finding("cold cache", [3]))
    plan.findings.append(Finding("no index", by="bob"))
    plan.tags.add("perf")
    plan.spent.incr(5)
    plan.owners.merge({"db": Finding("x")})
    plan.notes.text.insert(0, "so far")
    assert assert_type(plan.read(), Plan) == Plan(
        "ship", [Finding("cold cache", [3]), Finding("no index", [], "bob")], {"perf"}, 5, {"db": Finding("x")},
        "so far", "open",
    )  # fmt: skip
    assert plan.findings.get([])[0].pages == [3]
    plan.goal.update(lambda old: str(old).upper())
    assert (plan.goal.get(), state.get("plan/goal")) == ("SHIP", "SHIP")
    with pytest.raises(SchemaMismatch) as refused:
        plan.findings.append({"title": "x", "pages": ["one"]})
    assert (refused.value.rule, refused.value.path) == ("type", "$.pages[0]")
    with pytest.raises(SchemaMismatch):
        plan.state.set("closed")
    with pytest.raises(SchemaMismatch):
        state.append("plan/state", 1)
    with pytest.raises(InvalidRequest, match="is a log"):
        plan.findings.set([])
    with pytest.raises(AttributeError, match="no field 'gaol'"):
        plan.gaol  # noqa: B018
    with pytest.raises(AttributeError, match=r"model\.goal\.set"):
        plan.goal = "lost"


async def test_pydantic_models_and_typed_dicts_do_the_same(daemon: Daemon):
    async with AsyncClient(daemon.socket, agent="ann") as state:
        report = state.model(Report, "report/")
        await report.declare()
        assert await report.read() == Report()
        await report.sources.append(Source(url="a", rank=1))
        await report.best.set(Source(url="b"))
        await report.by_name.merge({"a": Source(url="a")})
        await report.until.set(datetime(2027, 1, 2, tzinfo=UTC))
        found = await report.read()
        assert (found.sources, found.best, found.by_name, found.until) == (
            [Source(url="a", rank=1)], Source(url="b"), {"a": Source(url="a")}, datetime(2027, 1, 2, tzinfo=UTC),
        )  # fmt: skip
        with pytest.raises(SchemaMismatch, match="report/title"):
            await report.title.set("x")
        with pytest.raises(SchemaMismatch, match="minLength"):
            await state.set("report/title", "x")
        with pytest.raises(SchemaMismatch, match=r"\$\.x"):
            await state.merge("report/by_name", {"x": {"rank": "high"}})
        typed = state.model(Typed, "typed/")
        await typed.goal.set("ship")
        await typed.findings.append({"any": 1})
        assert await typed.read() == {"goal": "ship", "findings": [{"any": 1}], "tags": set()}


def test_an_older_program_is_told_to_upgrade(daemon: Daemon):
    state = daemon.client("ann")
    old, new = state.model(Finding, "f/", version=1), state.model(Finding, "f/", version=2)
    old.declare()
    old.title.set("x")
    before = state.now()
    new.declare()
    with pytest.raises(SchemaMismatch, match="upgrade"):
        old.title.set("y")
    with pytest.raises(InvalidRequest, match="version 2"):
        old.declare()
    new.title.set("z")
    declared = state.now()
    new.declare()
    assert before != declared == state.now()
