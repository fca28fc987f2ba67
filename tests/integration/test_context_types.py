"""What the agent layer is handed of another type than it takes is refused by its name, before anything is done."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from crdtsync import Client
from crdtsync.context import Memory, Search, SharedContext, Views, compress, count, tokenizer
from crdtsync.errors import InvalidRequest
from tests.harness.daemon import Daemon

pytestmark = pytest.mark.integration

NOW = datetime.now(UTC)


def calls(client: Client, folder: Path) -> dict[str, tuple[Callable[..., object], dict[str, Any]]]:
    """Calls with arguments that are taken."""
    views, memory = Views(client), Memory(client, folder=folder)
    views.define("planner", ["plan/"], summarize_after=0)
    known = memory.add("lives in Rome", user_id="al")["results"][0]["id"]
    view = {"prefixes": ["plan/"], "budget_tokens": 100, "query": "q", "role": "r", "model": "gpt-5", "form": "json",
            "pinned": ["plan/a"], "full_newest": 2, "strategy": "best"}  # fmt: skip
    whose = {"user_id": "al", "agent_id": "a", "run_id": "r"}
    return {
        "count": (count, {"text": "a", "model": "gpt-5"}),
        "truncate": (tokenizer().truncate, {"text": "a b c", "tokens": 2}),
        "counts": (tokenizer().counts, {"texts": ["a"]}),
        "compress": (
            compress,
            {"content": "a b c" * 30, "kind": "prose", "budget": 5, "query": "q", "model": "gpt-5", "source": "s",
             "by": "rules"},
        ),
        "SharedContext": (
            SharedContext, {"client": client, "model": "gpt-5", "max_entries": 3, "prefix": "context/"},
        ),
        "put": (partial(SharedContext(client).put, content="text"), {"key": "k", "kind": "auto"}),
        "get": (SharedContext(client).get, {"key": "k"}),
        "Views": (Views, {"client": client, "model": "gpt-5"}),
        "view": (views.view, view | {"after": client.token, "since": client.token, "besides": "bob"}),
        "define": (views.define, view | {"name": "critic", "summarize_after": 3}),
        "named": (views.named, view | {"name": "planner", "since": client.token, "besides": "bob"}),
        "summarize": (views.summarize, {"name": "planner"}),
        "share": (views.share, {"name": "planner", "keys_max": 3, "window_tokens": 9}),
        "drop": (views.drop, {"name": "nothing"}),
        "Search": (Search, {"client": client, "folder": folder}),
        "search": (
            Search(client, folder=folder).search,
            {"query": "x", "prefix": "plan/", "agent": "ann", "kind": "register", "since": NOW, "limit": 3},
        ),
        "Memory": (
            Memory,
            {"client": client, "prefix": "memory/", "extract": None, "merge": None, "folder": folder, "authors": ["a"]},
        ),
        "add": (
            memory.add,
            {"messages": "x", "metadata": {}, "about": "t", "source": "s", "confidence": 0.5, "valid_from": NOW}
            | whose,
        ),
        "search a memory": (
            memory.search, {"query": "x", "limit": 3, "filters": {}, "threshold": 0.1, "as_of": NOW} | whose,
        ),
        "get all": (memory.get_all, {"limit": 3, "filters": {}, "as_of": NOW} | whose),
        "get a memory": (memory.get, {"memory_id": known}),
        "update": (memory.update, {"memory_id": known, "data": "lives in Oslo", "metadata": {}}),
        "supersede": (memory.supersede, {"memory_id": known, "data": "lives in Oslo", "at": None, "source": "s"}),
        "contradictions": (memory.contradictions, whose),
        "curate": (memory.curate, {"same": str.__eq__, "stale_after": timedelta(1)} | whose),
        "history": (memory.history, {"memory_id": known}),
        "delete all": (memory.delete_all, whose),
        "delete": (memory.delete, {"memory_id": known}),
        "forget": (memory.forget, {"memory_id": "nobody"}),
    }  # fmt: skip


def test_what_is_of_another_type_is_refused_by_its_name(daemon: Daemon, tmp_path: Path) -> None:
    client = daemon.client("ann")
    client.set("plan/a", "x")
    said_otherwise = {"data": "a memory is", "messages": "messages are", "as_of": "time", "at": "time",
                      "valid_from": "time"}  # fmt: skip
    for call, taken in calls(client, tmp_path).values():
        for parameter in taken:
            told = said_otherwise.get(parameter, parameter)
            for wrong in (object(), 5 if isinstance(taken[parameter], str | list | dict) else [b"x"]):
                with pytest.raises(InvalidRequest, match=told):
                    call(**taken | {parameter: wrong})
        call(**taken)


def test_an_empty_name_and_no_entries_at_all_are_refused(daemon: Daemon) -> None:
    client = daemon.client("ann")
    SharedContext(client).put("kept", "by others")
    for least in (0, -1):
        with pytest.raises(InvalidRequest, match="max_entries must be 1 or more"):
            SharedContext(client, max_entries=least)
        with pytest.raises(InvalidRequest, match="limit must be 1 or more"):
            Memory(client).search("x", user_id="ann", limit=least)
    with pytest.raises(InvalidRequest, match="agent takes"):
        SharedContext(client).put("a", "x", agent=5)  # type: ignore[arg-type]  # refused
    with pytest.raises(InvalidRequest, match="user_id is empty"):
        Memory(client).add("x", user_id="")
    assert Memory(client).forget("nobody") == {"message": "This host knew nothing of the memory 'nobody'"}


def test_a_view_has_no_field_of_another_name(daemon: Daemon) -> None:
    views = Views(daemon.client("ann"))
    with pytest.raises(InvalidRequest, match="a view has no budget: it takes prefixes, budget_tokens,"):
        views.define("planner", budget=5)


def test_one_word_is_a_prefix_and_a_pinned_key_and_not_its_letters(daemon: Daemon) -> None:
    client = daemon.client("ann")
    client.set("plan/a", "x")
    client.set("p", "y")
    views = Views(client)
    views.define("planner", "nothing/")
    assert views.named("planner", prefixes="plan/").shown == ("plan/a",)
    assert views.view("nothing/", pinned="plan/a").shown == ("plan/a",)
